"""The codec over whole waveforms at once, for training: what `rtc_agent.model.mimi` streams.

It works on the very groups of tensors that the streaming codec does, and gives the same numbers, so
that a conversation encoded here is what a live call will be heard as.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.model.layers import Rope, attend, rotate
from rtc_agent.model.mimi import Quantizer
from rtc_agent.model.mimi_weights import ConvWeights, MimiLayer, MimiWeights, ResidualWeights
from rtc_agent.model.spec import POSITIONS, MimiSpec

_NORM_EPS = 1e-5


def latents(spec: MimiSpec, weights: MimiWeights, pcm: Tensor) -> Tensor:
    """Waveforms to what the quantiser takes.

    Args:
        pcm: [rows, frames · 1920] at 24 kHz.

    Returns:
        [rows, frames, d]
    """
    x = _conv(weights.encoder_first, pcm[:, None])
    for (residual, down), ratio in zip(weights.encoder_blocks, reversed(spec.ratios), strict=True):
        x = _conv(down, F.elu(_residual(residual, x)), stride=ratio)
    x = _conv(weights.encoder_last, F.elu(x))
    x = _transformer(spec, weights.encoder_layers, x.transpose(1, 2)).transpose(1, 2)
    # The start is padded with the first input, not with zeros.
    kept = weights.downsample.shape[2] - POSITIONS
    x = F.pad(x, (kept, 0), mode="replicate")
    return F.conv1d(x, weights.downsample, stride=POSITIONS).transpose(1, 2)


def waveforms(spec: MimiSpec, weights: MimiWeights, quantised: Tensor) -> Tensor:
    """What the quantiser gives back, [rows, frames, d], to waveforms [rows, frames · 1920]."""
    x = quantised.transpose(1, 2)
    now, later = weights.upsample[:, :POSITIONS], weights.upsample[:, POSITIONS:]
    past = F.pad(x[:, :, :-1], (1, 0))
    # [rows, d, frames, 2]: each frame reaches two positions, and two of the next frame.
    x = x[..., None] * now[:, None] + past[..., None] * later[:, None]
    x = _transformer(spec, weights.decoder_layers, x.flatten(2).transpose(1, 2)).transpose(1, 2)
    x = _conv(weights.decoder_first, x)
    for (up, residual), ratio in zip(weights.decoder_blocks, spec.ratios, strict=True):
        x = _residual(residual, _transposed(up, F.elu(x), stride=ratio))
    return _conv(weights.decoder_last, F.elu(x))[:, 0]


class OfflineCodec:
    """Encoding and decoding whole recordings with finished weights, without gradients.

    Args:
        rows: waveforms computed at once, which bounds memory.
    """

    def __init__(self, spec: MimiSpec, weights: MimiWeights, rows: int = 16) -> None:
        self.spec = spec
        self.weights = weights
        self._rows = rows
        self._semantic = Quantizer(weights.semantic)
        self._acoustic = Quantizer(weights.acoustic)

    @torch.no_grad()
    def encode(self, pcm: Tensor) -> Tensor:
        """[rows, frames · 1920] to codes [rows, frames, 8]."""
        return torch.cat([self._encode(part) for part in pcm.split(self._rows)])

    @torch.no_grad()
    def decode(self, codes: Tensor) -> Tensor:
        """[rows, frames, 8] to [rows, frames · 1920]."""
        return torch.cat([self._decode(part) for part in codes.split(self._rows)])

    def quantised(self, codes: Tensor) -> Tensor:
        """[rows, frames, 8] to what the decoder takes, [rows, frames, d]."""
        flat = codes.flatten(0, 1)
        total = self._semantic.decode(flat[:, :1]) + self._acoustic.decode(flat[:, 1:])
        return total.view(*codes.shape[:2], -1)

    def _encode(self, pcm: Tensor) -> Tensor:
        latent = latents(self.spec, self.weights, pcm)
        flat = latent.flatten(0, 1)
        codes = torch.cat((self._semantic.encode(flat), self._acoustic.encode(flat)), dim=1)
        return codes.view(*latent.shape[:2], -1)

    def _decode(self, codes: Tensor) -> Tensor:
        return waveforms(self.spec, self.weights, self.quantised(codes))


def _conv(weights: ConvWeights, x: Tensor, stride: int = 1) -> Tensor:
    kept = weights.weight.shape[2] - stride
    return F.conv1d(F.pad(x, (kept, 0)), weights.weight, weights.bias, stride=stride)


def _transposed(weights: ConvWeights, x: Tensor, stride: int) -> Tensor:
    y = F.conv_transpose1d(x, weights.weight, weights.bias, stride=stride)
    # What reaches past the last input belongs to a frame that is not there.
    return y[:, :, : x.shape[2] * stride]


def _residual(weights: ResidualWeights, x: Tensor) -> Tensor:
    return x + _conv(weights.pointwise, F.elu(_conv(weights.conv, F.elu(x))))


def _transformer(spec: MimiSpec, layers: Sequence[MimiLayer], x: Tensor) -> Tensor:
    """[rows, positions, d] to the same, each position seeing what a full ring would still hold."""
    rows, n, dim = x.shape
    position = torch.arange(n, device=x.device)
    cos, sin = Rope(spec.head_dim, spec.max_period, x.device).angles(position)
    # Both positions of a frame are written before either looks, and push out the oldest.
    newest = position - position % POSITIONS + POSITIONS - 1
    seen = (position <= position[:, None]) & (position > newest[:, None] - spec.transformer_window)
    for layer in layers:
        normed = F.layer_norm(x, (dim,), layer.norm1.weight, layer.norm1.bias, _NORM_EPS)
        qkv = F.linear(normed, layer.in_proj).view(rows, n, 3, spec.transformer_heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        heads = attend(rotate(q, cos, sin), rotate(k, cos, sin), v, seen)
        x = x + F.linear(heads, layer.out_proj)
        normed = F.layer_norm(x, (dim,), layer.norm2.weight, layer.norm2.bias, _NORM_EPS)
        x = x + F.linear(F.gelu(F.linear(normed, layer.linear1)), layer.linear2)
    return x
