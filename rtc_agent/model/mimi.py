"""The streaming codec: one 80 ms frame of every row to eight codes, and back.

The modules are written out here rather than taken from `transformers.MimiModel`, whose cache path
departs from the reference once its window is full, whose decoder keeps no state between calls, and
whose layout has moved between releases. What is here has static shapes, state updated in place, and
rows that sit a tick out by a mask.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.model.mimi_layers import (
    MimiTransformer,
    ResidualUnit,
    StreamingConv,
    StreamingTransposedConv,
    StreamingUpsample,
)
from rtc_agent.model.mimi_weights import MimiWeights, QuantizerWeights
from rtc_agent.model.spec import POSITIONS, MimiSpec
from rtc_agent.model.streaming import Rows


class MimiEncoder:
    """Waveform to codes, one frame at a time, for a fixed number of rows."""

    def __init__(self, spec: MimiSpec, weights: MimiWeights, rows: int) -> None:
        self.state = state = Rows(rows, weights.device)
        self._first = StreamingConv(weights.encoder_first, state)
        self._blocks = []
        for (residual, down), ratio in zip(
            weights.encoder_blocks, reversed(spec.ratios), strict=True
        ):
            unit = ResidualUnit(residual, state)
            self._blocks.append((unit, StreamingConv(down, state, stride=ratio)))
        self._last = StreamingConv(weights.encoder_last, state)
        self._transformer = MimiTransformer(spec, weights.encoder_layers, state, POSITIONS)
        self._downsample = StreamingConv(
            weights.downsample, state, stride=POSITIONS, replicate=True
        )
        self._semantic = Quantizer(weights.semantic)
        self._acoustic = Quantizer(weights.acoustic)

    def encode(self, pcm: Tensor, live: Tensor) -> tuple[Tensor, Tensor]:
        """Encode every row's next frame.

        Args:
            pcm: [rows, 1920] float32 at 24 kHz.
            live: [rows] bool; other rows compute but keep their state.

        Returns:
            codes [rows, 8] int64, and [rows] bool whether the latent was finite.
        """
        x = self._first(pcm[:, None])
        for residual, down in self._blocks:
            x = down(F.elu(residual(x)))
        x = self._last(F.elu(x))
        x = self._transformer(x.transpose(1, 2)).transpose(1, 2)
        latent = self._downsample(x)[:, :, 0]
        codes = torch.cat((self._semantic.encode(latent), self._acoustic.encode(latent)), dim=1)
        self.state.commit(live)
        return codes, latent.isfinite().all(-1)


class MimiDecoder:
    """Codes to waveform, one frame at a time, for a fixed number of rows."""

    def __init__(self, spec: MimiSpec, weights: MimiWeights, rows: int) -> None:
        self.state = state = Rows(rows, weights.device)
        self._semantic = Quantizer(weights.semantic)
        self._acoustic = Quantizer(weights.acoustic)
        self._upsample = StreamingUpsample(weights.upsample, state, stride=POSITIONS)
        self._transformer = MimiTransformer(spec, weights.decoder_layers, state, POSITIONS)
        self._first = StreamingConv(weights.decoder_first, state)
        self._blocks = []
        for (up, residual), ratio in zip(weights.decoder_blocks, spec.ratios, strict=True):
            transposed = StreamingTransposedConv(up, state, stride=ratio)
            self._blocks.append((transposed, ResidualUnit(residual, state)))
        self._last = StreamingConv(weights.decoder_last, state)

    def decode(self, codes: Tensor, live: Tensor) -> Tensor:
        """Decode every row's next frame.

        Args:
            codes: [rows, 8] int64.
            live: [rows] bool; other rows compute but keep their state.

        Returns:
            [rows, 1920] float32 at 24 kHz, not clipped.
        """
        latent = self._semantic.decode(codes[:, :1]) + self._acoustic.decode(codes[:, 1:])
        x = self._transformer(self._upsample(latent).transpose(1, 2)).transpose(1, 2)
        x = self._first(x)
        for up, residual in self._blocks:
            x = residual(up(F.elu(x)))
        pcm = self._last(F.elu(x))[:, 0]
        self.state.commit(live)
        return pcm


class Quantizer:
    """One half of the split quantiser: codebooks applied one to the residual of the other."""

    def __init__(self, weights: QuantizerWeights) -> None:
        self._weights = weights
        self._half_norms = weights.codebooks.square().sum(-1) / 2

    def encode(self, latent: Tensor) -> Tensor:
        """[rows, d] to the nearest vectors' indices [rows, layers]."""
        residual = F.linear(latent, self._weights.input_proj)
        codes = []
        for book, half_norm in zip(self._weights.codebooks, self._half_norms, strict=True):
            # Nearest by Euclidean distance; the residual's own norm is the same for all.
            code = (F.linear(residual, book) - half_norm).argmax(-1)
            residual = residual - F.embedding(code, book)
            codes.append(code)
        return torch.stack(codes, dim=1)

    def decode(self, codes: Tensor) -> Tensor:
        """[rows, layers] to their sum, projected: [rows, d]."""
        total = F.embedding(codes[:, 0], self._weights.codebooks[0])
        for i in range(1, codes.shape[1]):
            total = total + F.embedding(codes[:, i], self._weights.codebooks[i])
        return F.linear(total, self._weights.output_proj)
