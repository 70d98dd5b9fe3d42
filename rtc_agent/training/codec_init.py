"""First values of the codec's tensors: the signal keeps its size from end to end.

With torch's own initialisation of convolutions it shrinks by about 1.7 a layer, so that after
fifteen the quantiser sees next to a constant and the codebooks collapse onto it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rtc_agent.model.spec import MimiSpec
from rtc_agent.training.keyed import KeyedTensors, drawn

LAYER_SCALE = 0.1
"""Of both transformers, where they begin; learned from there."""
_ELU_GAIN = math.sqrt(1.6)
"""Undoes what an ELU takes from a signal's deviation."""
_SPEECH_GAIN = 8.0
"""On the first convolution: speech is far quieter than unit variance."""
_LATENT_GAIN = 0.7
_SAMPLE_GAIN = 0.1
"""On the decoder's last convolution, for the same reason."""
_BRANCH_GAIN = 0.4
"""On residual branches, which add up."""


def is_codebook(key: str) -> bool:
    """Whether a key's tensor is moved by averages and not by gradients."""
    return "_codebook." in key


def new_codec(spec: MimiSpec, seed: int) -> KeyedTensors:
    """An untrained codec; its codebooks are empty until they are placed."""
    last_encoder = f"encoder.model.{2 + 3 * len(spec.ratios)}."
    last_decoder = f"decoder.model.{2 + 3 * len(spec.ratios)}."

    def draw(key: str, shape: tuple[int, ...], chance: torch.Generator) -> Tensor:
        if key.endswith(("_initialized", "cluster_usage", "norm1.weight", "norm2.weight")):
            return torch.ones(shape)
        if key.endswith(("bias", "embedding_sum")):
            return torch.zeros(shape)
        if "layer_scale" in key:
            return torch.full(shape, LAYER_SCALE)
        return torch.randn(shape, generator=chance) * _spread(key, shape)

    def _spread(key: str, shape: tuple[int, ...]) -> float:
        if key.startswith("upsample."):
            return 1.0
        if "convtr" in key:
            # Every output sample is a sum over the inputs of half the kernel.
            return _ELU_GAIN / math.sqrt(shape[0] * shape[2] / 2)
        spread = 1 / math.sqrt(math.prod(shape[1:]))
        if "transformer" in key or "_proj." in key:
            return spread
        if key.startswith("encoder.model.0."):
            return spread * _ELU_GAIN * _SPEECH_GAIN
        if key.startswith(last_encoder):
            return spread * _ELU_GAIN * _LATENT_GAIN
        if key.startswith(last_decoder):
            return spread * _ELU_GAIN * _SAMPLE_GAIN
        if ".block.3." in key:
            return spread * _ELU_GAIN * _BRANCH_GAIN
        return spread * _ELU_GAIN

    return KeyedTensors(drawn(spec.shapes(), draw, seed), fixed=is_codebook)
