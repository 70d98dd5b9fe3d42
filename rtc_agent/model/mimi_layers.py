"""The codec's streaming layers. Channels come before time: [rows, channels, time]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.model.layers import Rope, attend, rotate
from rtc_agent.model.mimi_weights import ConvWeights, MimiLayer, ResidualWeights
from rtc_agent.model.spec import MimiSpec
from rtc_agent.model.streaming import Rows

_NORM_EPS = 1e-5
_FEW_POSITIONS = 16
"""Up to so many positions a frame a convolution is one matrix product: convolution routines are
made for long inputs, and near the latents are several times slower."""


class StreamingConv:
    """A causal convolution that keeps its last kernel − stride inputs.

    Args:
        replicate: pad the very start with the first input instead of zeros.
    """

    def __init__(
        self,
        weights: ConvWeights | Tensor,
        state: Rows,
        *,
        stride: int = 1,
        replicate: bool = False,
    ) -> None:
        self._weight = weights if isinstance(weights, Tensor) else weights.weight
        self._bias = None if isinstance(weights, Tensor) else weights.bias
        self._stride = stride
        self._state = state
        channels, kernel = self._weight.shape[1:]
        self._kernel = kernel
        self._kept = kernel - stride
        self._replicate = replicate
        self._past = state.piece(channels, self._kept) if self._kept else None

    def __call__(self, x: Tensor) -> Tensor:
        past = self._past
        if past is not None:
            if self._replicate:
                first = (self._state.position == 0)[:, None, None]
                x = torch.cat((torch.where(first, x[:, :, :1], past), x), dim=2)
            else:
                x = torch.cat((past, x), dim=2)
            self._state.offer(past, x[:, :, -self._kept :])
        if x.shape[2] - self._kept > _FEW_POSITIONS * self._stride:
            return F.conv1d(x, self._weight, self._bias, stride=self._stride)
        taps = x.unfold(2, self._kernel, self._stride).transpose(1, 2)
        rows, positions = taps.shape[:2]
        y = F.linear(taps.reshape(rows * positions, -1), self._weight.flatten(1), self._bias)
        return y.view(rows, positions, -1).transpose(1, 2)


class StreamingTransposedConv:
    """A transposed convolution that keeps the tail which the next frame's start overlaps."""

    def __init__(self, weights: ConvWeights, state: Rows, *, stride: int) -> None:
        self._weight = weights.weight
        self._by_output = weights.weight.flatten(1).t().contiguous()
        self._bias = weights.bias[:, None]
        self._stride = stride
        self._state = state
        out, kernel = weights.weight.shape[1:]
        self._overlap = kernel - stride
        self._tail = state.piece(out, self._overlap)

    def __call__(self, x: Tensor) -> Tensor:
        # The bias goes on once a sample is complete, or the overlap would count it twice.
        y = self._spread(x)
        head = y[:, :, : self._overlap] + self._tail
        y = torch.cat((head, y[:, :, self._overlap :]), dim=2)
        ready = x.shape[2] * self._stride
        self._state.offer(self._tail, y[:, :, ready:])
        return y[:, :, :ready] + self._bias

    def _spread(self, x: Tensor) -> Tensor:
        """[rows, in, n] to [rows, out, (n − 1) · stride + kernel], without the bias."""
        rows, channels, n = x.shape
        if n > _FEW_POSITIONS or self._overlap != self._stride:
            return F.conv_transpose1d(x, self._weight, stride=self._stride)
        y = F.linear(x.transpose(1, 2).reshape(rows * n, channels), self._by_output)
        # The kernel is two strides long: one half stays in its own stride, the other in the next.
        own, next_ = y.view(rows, n, -1, 2, self._stride).permute(3, 0, 2, 1, 4)
        own, next_ = own.flatten(2), next_.flatten(2)
        return F.pad(own, (0, self._stride)) + F.pad(next_, (self._stride, 0))


class StreamingUpsample:
    """The depthwise transposed convolution from frames to transformer positions: [rows, d] in."""

    def __init__(self, weight: Tensor, state: Rows, *, stride: int) -> None:
        self._now, self._later = weight[:, :stride], weight[:, stride:]
        self._state = state
        self._past = state.piece(weight.shape[0])

    def __call__(self, x: Tensor) -> Tensor:
        y = x[:, :, None] * self._now + self._past[:, :, None] * self._later
        self._state.offer(self._past, x)
        return y


class ResidualUnit:
    """ELU, kernel 3, ELU, kernel 1, plus the input."""

    def __init__(self, weights: ResidualWeights, state: Rows) -> None:
        self._conv = StreamingConv(weights.conv, state)
        self._pointwise = StreamingConv(weights.pointwise, state)

    def __call__(self, x: Tensor) -> Tensor:
        return x + self._pointwise(F.elu(self._conv(F.elu(x))))


class MimiTransformer:
    """Pre-norm layers over a ring; both positions of a frame are written before either attends."""

    def __init__(
        self, spec: MimiSpec, layers: Sequence[MimiLayer], state: Rows, positions: int
    ) -> None:
        self._spec = spec
        self._layers = layers
        self._state = state
        self._positions = positions
        window = spec.transformer_window
        shape = (spec.transformer_heads, window, spec.head_dim)
        self._rings = [(state.ring(*shape), state.ring(*shape)) for _ in layers]
        self._rope = Rope(spec.head_dim, spec.max_period, state.device)
        self._step = torch.arange(positions, device=state.device)
        self._slot = torch.arange(window, device=state.device)

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, positions, d] to the same."""
        rows, n, dim = x.shape
        spec, window = self._spec, self._spec.transformer_window
        position = self._state.position[:, None] * n + self._step
        cos, sin = (a[:, None] for a in self._rope.angles(position))
        write = (position % window)[:, None, :, None]
        write = write.expand(rows, spec.transformer_heads, n, spec.head_dim)
        # The newest position that a ring row holds, once this frame is written.
        newest = position[:, -1:]
        held = newest - (newest - self._slot) % window
        seen = (held[:, None] >= 0) & (held[:, None] <= position[:, :, None])
        for layer, (keys, values) in zip(self._layers, self._rings, strict=True):
            normed = F.layer_norm(x, (dim,), layer.norm1.weight, layer.norm1.bias, _NORM_EPS)
            qkv = F.linear(normed, layer.in_proj).view(rows, n, 3, spec.transformer_heads, -1)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            keys.scatter_(2, write, rotate(k, cos, sin))
            values.scatter_(2, write, v)
            heads = attend(rotate(q, cos, sin), keys, values, seen[:, None])
            x = x + F.linear(heads, layer.out_proj)
            normed = F.layer_norm(x, (dim,), layer.norm2.weight, layer.norm2.bias, _NORM_EPS)
            x = x + F.linear(F.gelu(F.linear(normed, layer.linear1)), layer.linear2)
        return x
