"""A codec layer's product as one launch: where it reads, what it multiplies by, where it writes."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rtc_agent.model.cuda.launch import Launch, ceil_div, next_power_of_two
from rtc_agent.model.kernels.conv import conv_kernel

PLAIN, ELU, GELU = 0, 1, 2
_SPLITS_AT_MOST = 16


@dataclass(frozen=True, slots=True)
class Patches:
    """The left operand: `outputs` runs of `length` numbers a row, `step` apart."""

    source: Tensor
    """[rows, …], each row contiguous; the first run starts at its start."""
    outputs: int
    step: int
    length: int


@dataclass(frozen=True, slots=True)
class Replicate:
    """A new row's past reads as its first new input."""

    position: Tensor
    """[rows] int64, zero in a new row."""
    past: int
    """Elements before the first new input."""
    channels: int


@dataclass
class Product:
    """`y = patches · weightᵀ`, then bias, skip and activation."""

    patches: Patches
    weight: Tensor
    """[N, K] float32"""
    bias: Tensor | None = None
    skip: Tensor | None = None
    """[rows, …], read at the same places as the output is written."""
    raw: Tensor | None = None
    """[rows, …] for the sum."""
    activated: Tensor | None = None
    """[rows, …] for its activation."""
    activation: int = ELU
    replicate: Replicate | None = None
    _partial: Tensor = field(init=False, repr=False)
    _arrived: Tensor = field(init=False, repr=False)
    _tile: tuple[int, int, int, int, int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n, k = self.weight.shape
        if k != self.patches.length:
            raise ValueError(f"patches of {self.patches.length} against a weight of {k} columns")
        m = self.patches.source.shape[0] * self.patches.outputs
        self._tile = bm, bn, _, splits, _, _ = tile_for(m, n, k)
        device = self.weight.device
        self._partial = torch.empty(
            (splits, m, n) if splits > 1 else (1,), dtype=torch.float32, device=device
        )
        tiles = ceil_div(m, bm) * ceil_div(n, bn)
        self._arrived = torch.zeros(tiles, dtype=torch.int32, device=device)

    def launch(self, how: Launch) -> None:
        p = self.patches
        rows = p.source.shape[0]
        n, k = self.weight.shape
        m = rows * p.outputs
        bm, bn, bk, splits, warps, stages = self._tile
        none = self._partial
        replicate = self.replicate
        grid = (ceil_div(m, bm), ceil_div(n, bn), splits)
        conv_kernel[grid](
            p.source,
            self.weight,
            none if self.bias is None else self.bias,
            none if self.skip is None else self.skip,
            none if self.raw is None else self.raw,
            none if self.activated is None else self.activated,
            self._partial,
            self._arrived,
            self._arrived if replicate is None else replicate.position,
            m,
            n,
            k,
            p.outputs,
            p.source.stride(0),
            p.step,
            0 if self.skip is None else self.skip.stride(0),
            0 if self.raw is None else self.raw.stride(0),
            0 if self.activated is None else self.activated.stride(0),
            0 if replicate is None else replicate.past,
            1 if replicate is None else replicate.channels,
            BIAS=self.bias is not None,
            SKIP=self.skip is not None,
            RAW=self.raw is not None,
            ACT=PLAIN if self.activated is None else self.activation,
            REPLICATE=replicate is not None,
            SPLIT_K=splits,
            BM=bm,
            BN=bn,
            BK=bk,
            STAGES=stages,
            PRECISION=how.precision,
            **how.options(warps),
        )


def tile_for(m: int, n: int, k: int) -> tuple[int, int, int, int, int, int]:
    """Tile rows, columns and depth, splits along K, warps and stages for an [m, n, k] product.

    By measurement on an H200: a product of few rows streams its weight and wants many blocks.
    """
    if m <= 16:
        bm, bn, bk, blocks, least = 16, 32, 64, 600, 2
    elif m <= 64:
        bm, bn, bk, blocks, least = 32, 32, 64, 400, 1
    elif m <= 512:
        bm, bn, bk, blocks, least = (64, 64, 32, 400, 1) if n >= 1024 else (32, 64, 64, 400, 1)
    else:
        bm, bn, bk, blocks, least = 64, 32 if m <= 2048 and n <= 512 else 64, 32, 400, 3
    bn = max(16, min(bn, next_power_of_two(n)))
    bk = max(16, min(bk, next_power_of_two(k)))
    tiles = ceil_div(m, bm) * ceil_div(n, bn)
    splits = 1
    while (
        splits < _SPLITS_AT_MOST
        and tiles * splits * 2 <= blocks
        and k // (splits * 2) >= least * bk
    ):
        splits *= 2
    return bm, bn, bk, splits, 4, 3
