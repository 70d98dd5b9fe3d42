"""Weights of eight or four bits: what a smaller card can hold, and what they stand for.

Eight bits: one scale for each output. Four bits: one for each group of inputs, chosen for the least
squared error. Only the large matrices are narrowed; embeddings, norms and the text head are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

WeightFormat = Literal["model", "int8", "int4"]
"""model: of the dtype asked for."""

GROUP = 32
"""Inputs that share a scale in four bits, at most."""
_LEAST_GROUP = 16
"""Shorter ones are not worth their scales, nor can tensor cores take them."""
_AT_ONCE = 1 << 24
"""Numbers that are widened or narrowed at once."""
_SHRINKS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7)
"""Parts of a group's largest weight that its largest step may stand for."""


@dataclass(frozen=True, slots=True)
class QuantisedWeight:
    """A matrix [..., N, K], or a stack of them."""

    values: Tensor
    """8 bits: int8 [..., N, K]. 4 bits: uint8 [..., N, K / 2], each value plus 8, column j in the
    lower half of byte j and column j + K / 2 in the upper."""
    scales: Tensor
    """8 bits: float32 [..., N]. 4 bits: float16 [..., N, K / group]."""
    bits: int

    @property
    def shape(self) -> tuple[int, ...]:
        *rows, held = self.values.shape
        return (*rows, held * 8 // self.bits)

    @property
    def group(self) -> int:
        """Inputs that share a scale."""
        return self.shape[-1] // (1 if self.bits == 8 else self.scales.shape[-1])

    @property
    def device(self) -> torch.device:
        return self.values.device

    def __getitem__(self, index: int) -> QuantisedWeight:
        """One matrix of a stack."""
        return QuantisedWeight(self.values[index], self.scales[index], self.bits)

    def flatten(self, start: int, end: int) -> QuantisedWeight:
        """A stack's matrices one under the other."""
        return QuantisedWeight(
            self.values.flatten(start, end), self.scales.flatten(start, end), self.bits
        )

    def split(self, rows: int) -> list[QuantisedWeight]:
        """A matrix in parts of so many rows."""
        parts = zip(self.values.split(rows), self.scales.split(rows), strict=True)
        return [QuantisedWeight(values, scales, self.bits) for values, scales in parts]

    def dense(self, dtype: torch.dtype) -> Tensor:
        """What the numbers stand for."""
        if self.bits == 8:
            return (self.values * self.scales[..., None]).to(dtype)
        steps = torch.cat((self.values & 15, self.values >> 4), dim=-1).to(torch.int8) - 8
        grouped = steps.unflatten(-1, (-1, self.group)) * self.scales[..., None].float()
        return grouped.flatten(-2).to(dtype)


Weight: TypeAlias = Tensor | QuantisedWeight


def linear(x: Tensor, weight: Weight) -> Tensor:
    """`x · weightᵀ`, for one matrix in whatever form; a narrow one is widened a part at a time."""
    if isinstance(weight, Tensor):
        return F.linear(x, weight)
    parts = [F.linear(x, part.dense(x.dtype)) for part in weight.split(_rows_at_once(weight.shape))]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def narrowed(weight: Tensor, bits: int) -> Weight:
    """A matrix [..., N, K] in so many bits; as it is where its rows are too short for groups."""
    group = _group(weight.shape[-1])
    if group < _LEAST_GROUP:
        return weight
    if weight.ndim > 2:
        stacked = [_narrow(part, bits, group) for part in weight]
        return _joined(torch.stack, stacked, bits)
    return _narrow(weight, bits, group)


def _narrow(weight: Tensor, bits: int, group: int) -> QuantisedWeight:
    """A few rows at a time: what is worked with is several times the size of what is kept."""
    parts = weight.split(_rows_at_once(weight.shape))
    narrow = _eight_bits if bits == 8 else _four_bits
    return _joined(torch.cat, [narrow(part, group) for part in parts], bits)


def _joined(
    join: Callable[[list[Tensor]], Tensor], parts: list[QuantisedWeight], bits: int
) -> QuantisedWeight:
    return QuantisedWeight(join([p.values for p in parts]), join([p.scales for p in parts]), bits)


def _rows_at_once(shape: Sequence[int]) -> int:
    return max(1, _AT_ONCE // shape[-1])


def _group(columns: int) -> int:
    """The largest power of two, `GROUP` at most, in half a row."""
    half = columns // 2
    return 0 if columns % 2 else min(GROUP, half & -half)


def _eight_bits(weight: Tensor, _: int) -> QuantisedWeight:
    largest = weight.abs().amax(-1).float().clamp(min=1e-12)
    scales = largest / 127
    steps = (weight.float() / scales[..., None]).round_()
    return QuantisedWeight(steps.to(torch.int8), scales, 8)


def _four_bits(weight: Tensor, group: int) -> QuantisedWeight:
    grouped = weight.float().unflatten(-1, (-1, group))
    largest = grouped.abs().amax(-1).clamp(min=1e-6)
    best = torch.full_like(largest, float("inf"))
    scales = largest / 7
    for shrink in _SHRINKS:
        tried = (largest * (shrink / 7)).half().float()
        steps = (grouped / tried[..., None]).round_().clamp_(-8, 7)
        error = (steps * tried[..., None] - grouped).square().sum(-1)
        better = error < best
        scales = torch.where(better, tried, scales)
        best = torch.where(better, error, best)
    steps = (grouped / scales[..., None]).round_().clamp_(-8, 7).add_(8).to(torch.uint8)
    low, high = steps.flatten(-2).chunk(2, dim=-1)
    return QuantisedWeight((low | (high << 4)).contiguous(), scales.half(), 4)
