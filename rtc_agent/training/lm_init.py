"""First values of the language model's tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rtc_agent.model.spec import DEPFORMER_STEPS, LmSpec
from rtc_agent.training.keyed import KeyedTensors, drawn

_EMBEDDING = 0.05
"""Seventeen are added up."""
_HEAD = 0.02
"""Of what becomes logits: every token about as likely, at first."""


def is_embedding(key: str) -> bool:
    """Whether a key's tensor is a table of vectors, which does not decay."""
    return "emb." in key


def new_lm(spec: LmSpec, seed: int) -> KeyedTensors:
    """An untrained language model of eight depformer steps."""

    def draw(key: str, shape: tuple[int, ...], chance: torch.Generator) -> Tensor:
        if key.endswith("alpha"):
            return torch.ones(shape)
        return torch.randn(shape, generator=chance) * _spread(spec, key, shape)

    return KeyedTensors(drawn(spec.shapes(DEPFORMER_STEPS), draw, seed))


def _spread(spec: LmSpec, key: str, shape: tuple[int, ...]) -> float:
    if is_embedding(key):
        return _EMBEDDING
    if key.startswith(("text_linear.", "linears.")):
        return _HEAD
    spread = 1 / math.sqrt(shape[-1])
    if key.endswith(("out_proj.weight", "linear_out.weight")):
        # Residual branches add up: two a layer (Radford et al. 2019).
        deep = key.startswith("depformer")
        layers = spec.depformer_num_layers if deep else spec.num_layers
        return spread / math.sqrt(2 * layers)
    return spread
