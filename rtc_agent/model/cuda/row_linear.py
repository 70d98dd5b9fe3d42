"""The linears of the codec's transformers: LayerNorm before, residual or GELU after."""

from __future__ import annotations

from torch import Tensor

from rtc_agent.model.cuda.launch import Launch, ceil_div, next_power_of_two
from rtc_agent.model.cuda.product import GELU, PLAIN, Patches, Product
from rtc_agent.model.kernels.conv import few_rows_kernel, layer_norm_kernel
from rtc_agent.model.mimi_weights import ConvWeights

FEW_ROWS = 8
"""Sessions up to which every block does one session on the plain units."""
_FLOATS_A_BLOCK = 8192


class RowLinear:
    """`out = [skip +] [GELU of] [LayerNorm of] x · weightᵀ`, x [rows, T, K].

    Args:
        normed: [rows, T, K] to put the normalised input into.
    """

    def __init__(
        self,
        x: Tensor,
        weight: Tensor,
        out: Tensor,
        *,
        norm: ConvWeights | None = None,
        normed: Tensor | None = None,
        skip: Tensor | None = None,
        gelu: bool = False,
    ) -> None:
        self._x, self._weight, self._out, self._skip = x, weight, out, skip
        self._norm, self._normed = norm, normed
        self._activation = GELU if gelu else PLAIN
        self._product: Product | None = None
        if x.shape[0] <= FEW_ROWS:
            return
        if norm is not None and normed is None:
            raise ValueError("a norm over many rows needs room for what it gives")
        source = x if normed is None or norm is None else normed
        patches = Patches(source, x.shape[1], x.shape[2], x.shape[2])
        self._product = Product(
            patches,
            weight,
            skip=skip,
            raw=None if gelu else out,
            activated=out if gelu else None,
            activation=self._activation,
        )

    def launch(self, how: Launch) -> None:
        if self._product is None:
            self._launch_few(how)
            return
        if self._norm is not None and self._normed is not None:
            rows, positions, k = self._x.shape
            layer_norm_kernel[(rows * positions,)](
                self._x,
                self._norm.weight,
                self._norm.bias,
                self._normed,
                k,
                BLOCK=next_power_of_two(k),
                **how.options(4),
            )
        self._product.launch(how)

    def _launch_few(self, how: Launch) -> None:
        rows, positions, k = self._x.shape
        n = self._weight.shape[0]
        width = next_power_of_two(k)
        block = max(1, min(next_power_of_two(n), _FLOATS_A_BLOCK // width))
        norm, skip = self._norm, self._skip
        few_rows_kernel[(ceil_div(n, block), rows)](
            self._x,
            self._weight,
            self._weight if norm is None else norm.weight,
            self._weight if norm is None else norm.bias,
            self._x if skip is None else skip,
            self._out,
            n,
            k,
            self._x.stride(0),
            0 if skip is None else skip.stride(0),
            self._out.stride(0),
            NORM=norm is not None,
            SKIP=skip is not None,
            ACT=self._activation,
            T=positions,
            KP=width,
            BN=block,
            **how.options(4),
        )
