"""The language model's products against weights of eight or four bits."""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_agent.model.cuda.launch import Launch, ceil_div, next_power_of_two
from rtc_agent.model.kernels.quantised import gemv_quantised_kernel, linear_quantised_kernel
from rtc_agent.model.layers import RMS_EPS
from rtc_agent.model.quantised import QuantisedWeight

_GEMV_ROWS = 8
"""Weight rows a block, which share the work of normalising the input."""
_GEMV_BYTES = 1024
_GEMV_WARPS = 4
_LINEAR_OUTPUTS = 32


def launch_gemv_quantised(
    x: Tensor,
    weight: QuantisedWeight,
    y: Tensor,
    how: Launch,
    *,
    alpha: Tensor | None = None,
    residual: Tensor | None = None,
    gate: bool = False,
) -> None:
    """As `linear.launch_gemv`, one row."""
    n, k = weight.shape
    n = n // 2 if gate else n
    gemv_quantised_kernel[(ceil_div(n, _GEMV_ROWS),)](
        x,
        weight.values,
        weight.scales,
        y,
        y if residual is None else residual,
        x if alpha is None else alpha,
        n,
        k,
        RMS_EPS,
        NORM=alpha is not None,
        GATE=gate,
        RESIDUAL=residual is not None,
        BITS=weight.bits,
        GROUP=_group(weight),
        BN=_GEMV_ROWS,
        BK=min(_GEMV_BYTES, next_power_of_two(weight.values.shape[-1])),
        KP=next_power_of_two(k),
        STAGES=3,
        **how.options(_GEMV_WARPS),
    )


class QuantisedLinear:
    """As `linear.Linear`; a result in parts has one."""

    parts = 1

    def __init__(self, weight: QuantisedWeight, rows: int, *, gate: bool = False) -> None:
        self._weight, self._rows, self._gate = weight, rows, gate
        n, self._k = weight.shape
        self._outputs = n // 2 if gate else n

    def launch(self, x: Tensor, y: Tensor, how: Launch) -> None:
        weight = self._weight
        narrow = weight.bits == 4
        width = weight.values.shape[-1]
        block = weight.group if narrow else min(128, max(16, next_power_of_two(width)))
        outputs = _LINEAR_OUTPUTS
        linear_quantised_kernel[(ceil_div(self._outputs, outputs),)](
            x,
            weight.values,
            weight.scales,
            y,
            self._rows,
            self._outputs,
            self._k,
            x.stride(0),
            GATE=self._gate,
            BITS=weight.bits,
            GROUP=_group(weight),
            MP=max(16, next_power_of_two(self._rows)),
            BN=outputs,
            BK=block,
            STAGES=3 if x.dtype == torch.bfloat16 else 1,
            PRECISION=how.precision if x.dtype == torch.float32 else "ieee",
            **how.options(4),
        )


def _group(weight: QuantisedWeight) -> int:
    """Of four-bit weights; eight-bit ones have none, and any number will do."""
    return weight.group if weight.bits == 4 else 16
