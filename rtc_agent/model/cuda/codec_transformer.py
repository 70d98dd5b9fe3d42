"""The codec's transformers on a device: five launches a layer, seven for many rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rtc_agent.model.cuda.arena import Arena
from rtc_agent.model.cuda.launch import Launch, next_power_of_two
from rtc_agent.model.cuda.row_linear import RowLinear
from rtc_agent.model.kernels.codec_attention import codec_attention_kernel
from rtc_agent.model.layers import Rope
from rtc_agent.model.mimi_weights import MimiLayer
from rtc_agent.model.spec import MimiSpec

POSITIONS = 2
"""Positions a frame."""


class CodecTransformer:
    """Layers from `x` [rows, 2, d], which they overwrite, to `out` [rows, 2, d]."""

    def __init__(
        self, spec: MimiSpec, layers: Sequence[MimiLayer], arena: Arena, x: Tensor, out: Tensor
    ) -> None:
        rows, _, d = x.shape
        device = x.device
        heads, head_dim, ring = spec.transformer_heads, spec.head_dim, spec.transformer_window
        self._heads, self._head_dim, self._ring = heads, head_dim, ring
        self._arena = arena
        self._frequencies = Rope(head_dim, spec.max_period, device).frequencies

        def empty(*shape: int) -> Tensor:
            return torch.empty(shape, dtype=torch.float32, device=device)

        self._qkv = empty(rows, POSITIONS, 3 * d)
        self._attended = empty(rows, POSITIONS, d)
        hidden = empty(rows, POSITIONS, spec.transformer_ffn)

        normed = empty(rows, POSITIONS, d)
        self._layers = []
        for i, layer in enumerate(layers):
            keys, values = (
                torch.zeros((rows, heads, ring, head_dim), dtype=torch.float32, device=device)
                for _ in range(2)
            )
            arena.rings += (keys, values)
            last = out if i + 1 == len(layers) else x
            self._layers.append(
                (
                    RowLinear(x, layer.in_proj, self._qkv, norm=layer.norm1, normed=normed),
                    keys,
                    values,
                    RowLinear(self._attended, layer.out_proj, x, skip=x),
                    RowLinear(x, layer.linear1, hidden, norm=layer.norm2, normed=normed, gelu=True),
                    RowLinear(hidden, layer.linear2, last, skip=x),
                )
            )

    def launch(self, how: Launch) -> None:
        rows = self._qkv.shape[0]
        for project, keys, values, merge, widen, narrow in self._layers:
            project.launch(how)
            codec_attention_kernel[(self._heads, rows)](
                self._qkv,
                keys,
                values,
                self._arena.position,
                self._frequencies,
                self._attended,
                self._ring,
                self._head_dim**-0.5,
                H=self._heads,
                D=self._head_dim,
                BT=next_power_of_two(self._ring),
                **how.options(8),
            )
            merge.launch(how)
            widen.launch(how)
            narrow.launch(how)
