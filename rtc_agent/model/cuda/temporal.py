"""The temporal transformer's step on a device: five launches a layer, seven beyond one row."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rtc_agent.model.cuda.launch import Launch, ceil_div, next_power_of_two
from rtc_agent.model.cuda.linear import launch_add_norm, launch_gemv, product
from rtc_agent.model.kernels.attention import ring_attention_kernel
from rtc_agent.model.spec import LmSpec
from rtc_agent.model.weights import LmWeights, TemporalLayer


class RingAttention:
    """Decode attention over one ring a layer, with the work space that the layers share.

    Args:
        position: [rows] int64, the position being run.
        cos, sin: [rows, head_dim / 2] float32 at that position.
    """

    def __init__(self, spec: LmSpec, rows: int, position: Tensor, cos: Tensor, sin: Tensor) -> None:
        device = position.device
        self._heads, self._head_dim, self._ring = spec.num_heads, spec.head_dim, spec.window
        self._position, self._cos, self._sin = position, cos, sin
        # A lone row needs more blocks to keep the memory busy.
        self._split = 256 if rows == 1 else 512
        self._splits = ceil_div(spec.window, self._split)
        shape = (rows, spec.num_heads, self._splits)
        self._partial = torch.empty((*shape, spec.head_dim), dtype=torch.float32, device=device)
        self._stats = torch.empty((*shape, 2), dtype=torch.float32, device=device)
        self._arrived = torch.zeros(shape[:2], dtype=torch.int32, device=device)

    def launch(
        self,
        qkv: Tensor,
        keys: Tensor,
        values: Tensor,
        scales: tuple[Tensor, Tensor] | None,
        out: Tensor,
        how: Launch,
    ) -> None:
        """
        Args:
            qkv: [rows, 3 · heads · head_dim], not rotated.
            keys, values: [rows, heads, ring, head_dim], of the model's type or int8.
            scales: [rows, heads, ring] float32 of keys and of values, for int8.
            out: [rows, heads · head_dim]
        """
        rows = qkv.shape[0]
        key_scales, value_scales = (self._stats, self._stats) if scales is None else scales
        int8 = scales is not None
        ring_attention_kernel[(self._splits, self._heads, rows)](
            qkv,
            keys,
            values,
            key_scales,
            value_scales,
            self._position,
            self._cos,
            self._sin,
            out,
            self._partial,
            self._stats,
            self._arrived,
            self._ring,
            self._head_dim**-0.5,
            H=self._heads,
            D=self._head_dim,
            SPLIT=self._split,
            SPLITS=self._splits,
            SPLITS_P2=next_power_of_two(self._splits),
            BT=128,
            STAGES=2,
            # The tensor cores want at least sixteen numbers.
            DOT=self._head_dim >= 16,
            INT8=int8,
            WHOLE=False,
            PRECISION=how.precision if out.dtype == torch.float32 else "ieee",
            AHEAD=32 if how.pdl and self._head_dim * keys.element_size() >= 128 else 0,
            **how.options(4),
        )


class TemporalGraph:
    """Buffers and launches of one step. Same arithmetic as `TemporalTransformer.step`.

    Args:
        h: [rows, dim], the step's input; overwritten.
        keys, values: [layers, rows, heads, window, head_dim]
        scales: [layers, rows, heads, window] float32 of keys and of values, for int8 ones.
    """

    def __init__(
        self,
        spec: LmSpec,
        weights: LmWeights,
        h: Tensor,
        attention: RingAttention,
        keys: Tensor,
        values: Tensor,
        scales: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        rows, dim = h.shape
        self._weights = weights
        self._h = h
        self._attention = attention
        self._rings: Sequence[tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]] = [
            (
                keys[i],
                values[i],
                None if scales is None else (scales[0][i], scales[1][i]),
            )
            for i in range(spec.num_layers)
        ]

        def empty(width: int) -> Tensor:
            return torch.empty((rows, width), dtype=weights.dtype, device=h.device)

        self._qkv, self._heads, self._hidden = empty(3 * dim), empty(dim), empty(spec.hidden)
        self.context = empty(dim)
        """[rows, dim]: the step's normalised output."""
        self._single = rows == 1
        self._layers = [] if self._single else [_Layer(w, rows) for w in weights.layers]
        parts = max((layer.parts for layer in self._layers), default=1)
        self._parts = torch.empty((parts, rows, dim), dtype=torch.float32, device=h.device)

    def launch(self, how: Launch) -> None:
        if self._single:
            self._launch_single(how)
        else:
            self._launch_many(how)

    def _launch_single(self, how: Launch) -> None:
        h = self._h
        for w, (keys, values, scales) in zip(self._weights.layers, self._rings, strict=True):
            launch_gemv(h, w.in_proj, self._qkv, how, alpha=w.norm1)
            self._attention.launch(self._qkv, keys, values, scales, self._heads, how)
            launch_gemv(self._heads, w.out_proj, h, how, residual=h)
            launch_gemv(h, w.linear_in, self._hidden, how, alpha=w.norm2, gate=True)
            launch_gemv(self._hidden, w.linear_out, h, how, residual=h)
        launch_add_norm(None, h, self.context, self._weights.out_norm, how)

    def _launch_many(self, how: Launch) -> None:
        h, x = self._h, self.context
        norms = [w.norm1 for w in self._weights.layers[1:]] + [self._weights.out_norm]
        launch_add_norm(None, h, x, self._weights.layers[0].norm1, how)
        for layer, (keys, values, scales), after in zip(
            self._layers, self._rings, norms, strict=True
        ):
            layer.project.launch(x, self._qkv, how)
            self._attention.launch(self._qkv, keys, values, scales, self._heads, how)
            parts = self._parts[: layer.merge.parts]
            layer.merge.launch(self._heads, parts, how)
            launch_add_norm(parts, h, x, layer.norm2, how)
            layer.widen.launch(x, self._hidden, how)
            parts = self._parts[: layer.narrow.parts]
            layer.narrow.launch(self._hidden, parts, how)
            launch_add_norm(parts, h, x, after, how)


class _Layer:
    def __init__(self, weights: TemporalLayer, rows: int) -> None:
        self.project = product(weights.in_proj, rows)
        self.merge = product(weights.out_proj, rows, partial=True)
        self.norm2 = weights.norm2
        self.widen = product(weights.linear_in, rows, gate=True)
        self.narrow = product(weights.linear_out, rows, partial=True)
        self.parts = max(self.merge.parts, self.narrow.parts)
