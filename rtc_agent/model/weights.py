"""A model's tensors, grouped as the code uses them, whatever they were read or made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rtc_agent.model.quantised import Weight, WeightFormat, narrowed
from rtc_agent.model.spec import COLUMN_ROWS, DEPFORMER_STEPS, LmSpec

Fetch = Callable[[str, int | None], Tensor]
"""Key (of `LmSpec.shapes` or `MimiSpec.shapes`) and how many leading rows to take (None: all)."""


@dataclass(frozen=True, slots=True)
class TemporalLayer:
    """One layer of the temporal transformer; weights are [out, in] as `linear` takes them."""

    norm1: Tensor
    """[dim]"""
    in_proj: Weight
    """[3 · dim, dim]: q, k, v, heads contiguous in each."""
    out_proj: Weight
    """[dim, dim]"""
    norm2: Tensor
    """[dim]"""
    linear_in: Weight
    """[2 · hidden, dim]: the half that goes through SiLU first."""
    linear_out: Weight
    """[dim, hidden]"""


@dataclass(frozen=True, slots=True)
class DepformerLayer:
    """One layer of the depformer, its eight steps stacked; d is the depformer's dim."""

    norm1: Tensor
    """[d], shared by the steps."""
    in_proj: Weight
    """[steps, 3 · d, d]"""
    out_proj: Weight
    """[steps, d, d]"""
    norm2: Tensor
    """[d], shared by the steps."""
    linear_in: Weight
    """[steps, 2 · hidden, d]"""
    linear_out: Weight
    """[steps, d, hidden]"""


@dataclass(frozen=True, slots=True)
class LmWeights:
    """The language model. Embedding tables end with a zero row, which `ZERO_TOKEN` selects."""

    audio_emb: Tensor
    """[16, card + 2, dim]: agent's codebooks, then the user's."""
    text_emb: Tensor
    """[text_card + 2, dim]"""
    layers: tuple[TemporalLayer, ...]
    out_norm: Tensor
    """[dim]"""
    text_linear: Tensor
    """[text_card, dim]"""
    dep_in: Weight
    """[steps, d, dim]"""
    dep_text_emb: Tensor
    """[text_card + 2, d]"""
    dep_audio_emb: Tensor
    """[steps − 1, card + 2, d]"""
    dep_layers: tuple[DepformerLayer, ...]
    dep_heads: Weight
    """[steps, card, d]"""

    @property
    def device(self) -> torch.device:
        return self.text_linear.device

    @property
    def dtype(self) -> torch.dtype:
        return self.text_linear.dtype


def assemble_lm(spec: LmSpec, fetch: Fetch, form: WeightFormat = "model") -> LmWeights:
    """Group the language model's tensors; steps of the depformer past the eighth are not fetched.

    Tensors that are used stacked are copied into place one by one, and narrowed as soon as they
    are there, so that the peak is the model and one tensor more.

    Args:
        form: of the transformers' matrices; with int4 the depformer, where an error goes into the
            next code at once, keeps eight bits.
    """
    steps, e = DEPFORMER_STEPS, spec.depformer_dim

    def wide_or(bits: int) -> Callable[[Tensor], Weight]:
        return lambda weight: weight if form == "model" else narrowed(weight, bits)

    matrix = wide_or(4 if form == "int4" else 8)
    step_matrix = wide_or(8)

    def stack(keys: list[str], spare_rows: int = 0) -> Tensor:
        first = fetch(keys[0], None)
        rows = first.shape[0]
        out = first.new_zeros((len(keys), rows + spare_rows, *first.shape[1:]))
        out[0, :rows] = first
        for i, key in enumerate(keys[1:], 1):
            out[i, :rows] = fetch(key, None)
        return out

    def temporal(i: int) -> TemporalLayer:
        p = f"transformer.layers.{i}."
        return TemporalLayer(
            norm1=fetch(p + "norm1.alpha", None).flatten(),
            in_proj=matrix(fetch(p + "self_attn.in_proj_weight", None)),
            out_proj=matrix(fetch(p + "self_attn.out_proj.weight", None)),
            norm2=fetch(p + "norm2.alpha", None).flatten(),
            linear_in=matrix(fetch(p + "gating.linear_in.weight", None)),
            linear_out=matrix(fetch(p + "gating.linear_out.weight", None)),
        )

    def depformer(i: int) -> DepformerLayer:
        p = f"depformer.layers.{i}."
        in_proj = fetch(p + "self_attn.in_proj_weight", steps * 3 * e)
        out_proj = fetch(p + "self_attn.out_proj.weight", steps * e)
        return DepformerLayer(
            norm1=fetch(p + "norm1.alpha", None).flatten(),
            in_proj=step_matrix(in_proj.view(steps, 3 * e, e)),
            out_proj=step_matrix(out_proj.view(steps, e, e)),
            norm2=fetch(p + "norm2.alpha", None).flatten(),
            linear_in=step_matrix(stack([f"{p}gating.{k}.linear_in.weight" for k in range(steps)])),
            linear_out=step_matrix(
                stack([f"{p}gating.{k}.linear_out.weight" for k in range(steps)])
            ),
        )

    return LmWeights(
        audio_emb=stack([f"emb.{k}.weight" for k in range(COLUMN_ROWS - 1)], spare_rows=1),
        text_emb=stack(["text_emb.weight"], spare_rows=1)[0],
        layers=tuple(temporal(i) for i in range(spec.num_layers)),
        out_norm=fetch("out_norm.alpha", None).flatten(),
        text_linear=fetch("text_linear.weight", None),
        dep_in=step_matrix(stack([f"depformer_in.{k}.weight" for k in range(steps)])),
        dep_text_emb=stack(["depformer_text_emb.weight"], spare_rows=1)[0],
        dep_audio_emb=stack([f"depformer_emb.{k}.weight" for k in range(steps - 1)], spare_rows=1),
        dep_layers=tuple(depformer(i) for i in range(spec.depformer_num_layers)),
        dep_heads=step_matrix(stack([f"linears.{k}.weight" for k in range(steps)])),
    )
