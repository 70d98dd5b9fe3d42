"""A model's tensors, grouped as the code uses them, whatever they were read or made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.model.quantised import (
    Weight,
    WeightFormat,
    can_narrow,
    narrowed_in_parts,
    stacked,
)
from rtc_agent.model.spec import COLUMN_ROWS, DEPFORMER_STEPS, LmSpec

Fetch = Callable[[str, int | None], Tensor]
"""Key (of `LmSpec.shapes` or `MimiSpec.shapes`) and how many leading rows to take (None: all)."""
FetchRows = Callable[[str, slice], Tensor]
"""Key and which of its rows to take."""


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


def assemble_lm(
    spec: LmSpec,
    fetch: Fetch,
    form: WeightFormat = "model",
    fetch_rows: FetchRows | None = None,
) -> LmWeights:
    """Group the language model's tensors; steps of the depformer past the eighth are not fetched.

    Tensors that are used stacked are copied into place one by one, so that the peak is the model
    and one tensor more. Those that are narrowed are so a few rows at a time: with `fetch_rows`
    none of them is ever wide as a whole.

    Args:
        form: of the transformers' matrices; with int4 the depformer, where an error goes into the
            next code at once, keeps eight bits.
    """
    steps, e = DEPFORMER_STEPS, spec.depformer_dim
    shapes = spec.shapes(steps)

    def rows_of(key: str) -> Callable[[slice], Tensor]:
        if fetch_rows is not None:
            return partial(fetch_rows, key)
        whole = fetch(key, shapes[key][0])
        return lambda part: whole[part]

    def matrix(key: str, bits: int = 4 if form == "int4" else 8) -> Weight:
        if form == "model" or not can_narrow(shapes[key]):
            return fetch(key, shapes[key][0])
        return narrowed_in_parts(shapes[key], bits, rows_of(key))

    def step_matrix(key: str, rows: int) -> Weight:
        """One key of all steps, one under the other."""
        weight = matrix(key, 8)
        if isinstance(weight, Tensor):
            return weight.view(steps, rows, -1)
        return weight.unflatten(steps)

    def step_matrices(keys: list[str]) -> Weight:
        """A key a step."""
        if form == "model" or not can_narrow(shapes[keys[0]]):
            return stack(keys)
        return stacked(narrowed_in_parts(shapes[key], 8, rows_of(key)) for key in keys)

    def stack(keys: list[str], spare_rows: int = 0) -> Tensor:
        first = fetch(keys[0], None)
        if first.requires_grad:
            # In training one operation, and one gradient of it, is worth more than memory.
            return F.pad(torch.stack([fetch(key, None) for key in keys]), (0, 0, 0, spare_rows))
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
            in_proj=matrix(p + "self_attn.in_proj_weight"),
            out_proj=matrix(p + "self_attn.out_proj.weight"),
            norm2=fetch(p + "norm2.alpha", None).flatten(),
            linear_in=matrix(p + "gating.linear_in.weight"),
            linear_out=matrix(p + "gating.linear_out.weight"),
        )

    def depformer(i: int) -> DepformerLayer:
        p = f"depformer.layers.{i}."
        return DepformerLayer(
            norm1=fetch(p + "norm1.alpha", None).flatten(),
            in_proj=step_matrix(p + "self_attn.in_proj_weight", 3 * e),
            out_proj=step_matrix(p + "self_attn.out_proj.weight", e),
            norm2=fetch(p + "norm2.alpha", None).flatten(),
            linear_in=step_matrices([f"{p}gating.{k}.linear_in.weight" for k in range(steps)]),
            linear_out=step_matrices([f"{p}gating.{k}.linear_out.weight" for k in range(steps)]),
        )

    return LmWeights(
        audio_emb=stack([f"emb.{k}.weight" for k in range(COLUMN_ROWS - 1)], spare_rows=1),
        text_emb=stack(["text_emb.weight"], spare_rows=1)[0],
        layers=tuple(temporal(i) for i in range(spec.num_layers)),
        out_norm=fetch("out_norm.alpha", None).flatten(),
        text_linear=fetch("text_linear.weight", None),
        dep_in=step_matrices([f"depformer_in.{k}.weight" for k in range(steps)]),
        dep_text_emb=stack(["depformer_text_emb.weight"], spare_rows=1)[0],
        dep_audio_emb=stack([f"depformer_emb.{k}.weight" for k in range(steps - 1)], spare_rows=1),
        dep_layers=tuple(depformer(i) for i in range(spec.depformer_num_layers)),
        dep_heads=step_matrices([f"linears.{k}.weight" for k in range(steps)]),
    )
