"""Weights of eight or four bits: what a smaller card can hold, and what they stand for.

Eight bits: one scale for each output. Four bits: one for each group of inputs, chosen for the least
squared error. Only the large matrices are narrowed; embeddings, norms and the text head are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
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
_NARROW_AT_ONCE = 1 << 22
"""Numbers that are narrowed at once; what that works with is several times their size."""
_WIDEN_AT_ONCE = 1 << 23
"""Numbers that are widened at once. Fewer would keep a GPU waiting for launches."""
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

    def unflatten(self, matrices: int) -> QuantisedWeight:
        """A matrix as a stack of so many, each of as many of its rows."""
        return QuantisedWeight(
            self.values.unflatten(0, (matrices, -1)),
            self.scales.unflatten(0, (matrices, -1)),
            self.bits,
        )

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
    rows = max(1, _WIDEN_AT_ONCE // weight.shape[-1])
    parts = [F.linear(x, part.dense(x.dtype)) for part in weight.split(rows)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def narrowed(weight: Tensor, bits: int) -> Weight:
    """A matrix [..., N, K] in so many bits; as it is where its rows are too short for groups."""
    if not can_narrow(weight.shape):
        return weight
    rows = weight.flatten(0, -2)
    return narrowed_in_parts(weight.shape, bits, lambda part: rows[part])


def can_narrow(shape: Sequence[int]) -> bool:
    """Whether rows are long enough for groups that share a scale."""
    return _group(shape[-1]) >= _LEAST_GROUP


def narrowed_in_parts(
    shape: Sequence[int], bits: int, wide: Callable[[slice], Tensor]
) -> QuantisedWeight:
    """A matrix [..., N, K] in so many bits, of which no more than a few rows are ever wide.

    Args:
        wide: gives some of all its rows, [rows, K].
    """
    *lead, columns = shape
    group = _group(columns)
    narrow = _eight_bits if bits == 8 else _four_bits
    values = scales = None
    for part in _parts(math.prod(lead), columns, _NARROW_AT_ONCE):
        made = narrow(wide(part), group)
        if values is None or scales is None:
            values = made.values.new_empty((math.prod(lead), *made.values.shape[1:]))
            scales = made.scales.new_empty((math.prod(lead), *made.scales.shape[1:]))
        values[part], scales[part] = made.values, made.scales
    if values is None or scales is None:
        raise ValueError(f"a matrix of {list(shape)} has no rows")
    return QuantisedWeight(
        values.view(*lead, *values.shape[1:]), scales.view(*lead, *scales.shape[1:]), bits
    )


def stacked(matrices: Iterable[QuantisedWeight]) -> QuantisedWeight:
    """Matrices of one shape and form as a stack."""
    made = list(matrices)
    return QuantisedWeight(
        torch.stack([m.values for m in made]), torch.stack([m.scales for m in made]), made[0].bits
    )


def _parts(rows: int, columns: int, at_once: int) -> Iterator[slice]:
    step = max(1, at_once // columns)
    return (slice(first, min(first + step, rows)) for first in range(0, rows, step))


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
    grouped = weight.to(torch.float32, copy=True).unflatten(-1, (-1, group))
    largest = grouped.abs().amax(-1).clamp(min=1e-6)
    best = torch.full_like(largest, float("inf"))
    scales = largest / 7
    for shrink in _SHRINKS:
        tried = (largest * (shrink / 7)).half().float()
        steps = (grouped / tried[..., None]).round_().clamp_(-8, 7)
        error = steps.mul_(tried[..., None]).sub_(grouped).square_().sum(-1)
        del steps
        better = error < best
        scales = torch.where(better, tried, scales)
        best = torch.where(better, error, best)
    steps = grouped.div_(scales[..., None]).round_().clamp_(-8, 7).add_(8).to(torch.uint8)
    low, high = steps.flatten(-2).chunk(2, dim=-1)
    return QuantisedWeight((low | (high << 4)).contiguous(), scales.half(), 4)
