"""The language model's products on a device: which kernel and which tile suit how many rows.

Tiles are by measurement on an H200, weights streaming from memory; see PERFORMANCE.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rtc_agent.model.cuda.launch import Launch, ceil_div, next_power_of_two, shared_memory
from rtc_agent.model.cuda.quantised import QuantisedLinear, launch_gemv_quantised
from rtc_agent.model.kernels.linear import gemv_ahead_kernel, gemv_kernel, linear_kernel
from rtc_agent.model.kernels.norm import add_norm_kernel
from rtc_agent.model.layers import RMS_EPS
from rtc_agent.model.quantised import QuantisedWeight, Weight

_LINES_AHEAD = 4
"""128-byte lines of each weight row fetched while the kernel before is still running."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Weight rows and columns a block takes at a time, and how it is launched."""

    n: int
    k: int
    warps: int
    stages: int
    flip: bool = False
    """The weight is the left operand of the tensor cores."""
    splits: int = 1
    """Parts along K, added up by whoever reads the result."""


_LONGEST_AHEAD = 4096
"""Columns up to which a block keeps its weights in registers while it waits."""


def ahead_tile(k: int, *, gate: bool) -> Tile:
    """For one row and weights short enough to be loaded ahead."""
    if k >= 2048:
        return Tile(4, k, 4, 1) if gate else Tile(4, k, 8 if k >= 4096 else 4, 1)
    return Tile(4, k, 2 if gate or k < 512 else 4, 1)


_GEMV_TILE = Tile(4, 1024, 4, 1)
"""For one row and longer ones."""


def linear_tile(rows: int, n: int, k: int, *, gate: bool, partial: bool) -> Tile:
    """For 2 … 128 rows.

    Args:
        partial: the result may be left in parts, for `add_norm`.
    """
    small = k * n <= 4096 * 1024
    deep = min(128, max(16, next_power_of_two(k)))
    if k < 512 or n < 64:
        return Tile(16, min(deep, 64), 4, 2)
    if rows <= 16:
        if partial:
            return Tile(64, deep, 4, 4, flip=True, splits=4)
        if small:
            return Tile(64, 128, 4, 4, flip=True) if gate else Tile(64, 256, 4, 3, flip=True)
        return Tile(32, 128, 4, 4) if gate else Tile(32, 256, 4, 4)
    if partial:
        return Tile(64, deep, 4, 4, splits=2)
    if gate:
        return Tile(32, min(deep, 64), 4, 4)
    return Tile(64, deep, 4, 4) if small else Tile(128, deep, 8, 3)


class Linear:
    """`y = x · weightᵀ` for a fixed number of rows, with what may follow it.

    Args:
        weight: [N, K], or [2·N, K] with a gate.
        gate: `y = silu(a) · b` of the product's halves.
        partial: leave the result in parts, [splits, rows, N] float32.
    """

    def __init__(
        self, weight: Tensor, rows: int, *, gate: bool = False, partial: bool = False
    ) -> None:
        self.weight = weight
        self.rows = rows
        self._gate, self._partial = gate, partial
        n, self._k = weight.shape
        self.outputs = n // 2 if gate else n
        self.tile = linear_tile(rows, self.outputs, self._k, gate=gate, partial=partial)
        self._stages = self._fitting_stages()
        if ceil_div(self._k, self.tile.k) < self.tile.splits:
            raise ValueError(f"{self._k} columns cannot be cut into {self.tile.splits} parts")

    @property
    def parts(self) -> int:
        return self.tile.splits

    def _fitting_stages(self) -> int:
        """Tiles in flight, as many as the measured form has or a block's shared memory holds."""
        tile = self.tile
        rows = max(16, next_power_of_two(self.rows)) + (2 if self._gate else 1) * tile.n
        stage: int = rows * tile.k * self.weight.element_size()
        return max(1, min(tile.stages, shared_memory(self.weight.device) // stage))

    def launch(self, x: Tensor, y: Tensor, how: Launch) -> None:
        """
        Args:
            x: [rows, K], each row contiguous.
            y: [rows, N] of the weight's type, or [splits, rows, N] float32.
        """
        tile = self.tile
        linear_kernel[(ceil_div(self.outputs, tile.n), tile.splits)](
            x,
            self.weight,
            y,
            self.rows,
            self.outputs,
            self._k,
            x.stride(0),
            GATE=self._gate,
            PARTIAL=self._partial,
            SPLIT_K=tile.splits,
            MP=max(16, next_power_of_two(self.rows)),
            BN=tile.n,
            BK=tile.k,
            STAGES=self._stages,
            FLIP=tile.flip,
            EVEN=self.outputs % tile.n == 0 and self._k % (tile.k * tile.splits) == 0,
            AHEAD=_LINES_AHEAD if how.pdl and self._k * self.weight.element_size() >= 2048 else 0,
            PRECISION=how.precision if self.weight.dtype == torch.float32 else "ieee",
            **how.options(tile.warps),
        )


Product = Linear | QuantisedLinear


def product(weight: Weight, rows: int, *, gate: bool = False, partial: bool = False) -> Product:
    """The product for a weight in whatever form; arguments as `Linear`'s."""
    if isinstance(weight, QuantisedWeight):
        return QuantisedLinear(weight, rows, gate=gate)
    return Linear(weight, rows, gate=gate, partial=partial)


def launch_gemv(
    x: Tensor,
    weight: Weight,
    y: Tensor,
    how: Launch,
    *,
    alpha: Tensor | None = None,
    residual: Tensor | None = None,
    gate: bool = False,
) -> None:
    """`y = [residual +] [gate of] weight · [RMSNorm of] x`, rows contiguous.

    Args:
        x: one row, or a few where the weight is no longer than `_LONGEST_AHEAD`.
    """
    if isinstance(weight, QuantisedWeight):
        launch_gemv_quantised(x, weight, y, how, alpha=alpha, residual=residual, gate=gate)
        return
    n, k = weight.shape
    rows = x.numel() // k
    n = n // 2 if gate else n
    arguments = (
        x,
        weight,
        y,
        y if residual is None else residual,
        x if alpha is None else alpha,
        n,
        k,
        RMS_EPS,
    )
    form = {"NORM": alpha is not None, "GATE": gate, "RESIDUAL": residual is not None}
    if k <= _LONGEST_AHEAD:
        tile = ahead_tile(k, gate=gate)
        head = 1 << (k.bit_length() - 1)
        gemv_ahead_kernel[(ceil_div(n, tile.n),)](
            *arguments,
            ROWS=rows,
            BN=tile.n,
            KA=head,
            KB=next_power_of_two(k - head) if k > head else 0,
            **form,
            **how.options(tile.warps),
        )
        return
    if rows > 1:
        raise ValueError(f"{rows} rows of {k} numbers")
    tile = _GEMV_TILE
    gemv_kernel[(ceil_div(n, tile.n),)](
        *arguments,
        BN=tile.n,
        BK=tile.k,
        KP=next_power_of_two(k),
        STAGES=tile.stages,
        EVEN=n % tile.n == 0 and k % tile.k == 0,
        AHEAD=_LINES_AHEAD if how.pdl and k * weight.element_size() >= 2048 else 0,
        **form,
        **how.options(tile.warps),
    )


def launch_add_norm(parts: Tensor | None, h: Tensor, x: Tensor, alpha: Tensor, how: Launch) -> None:
    """`h += sum of parts`, `x = RMSNorm(h)`; h and x [rows, d], parts [splits, rows, d]."""
    rows, d = h.shape
    add_norm_kernel[(rows,)](
        h if parts is None else parts,
        h,
        x,
        alpha,
        rows,
        d,
        RMS_EPS,
        SPLITS=0 if parts is None else parts.shape[0],
        NORM=True,
        BLOCK=next_power_of_two(d),
        **how.options(8 if d >= 4096 else 4),
    )
