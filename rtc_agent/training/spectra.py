"""How far apart two waveforms sound: log-mel spectra at several resolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rtc_agent.engine.stepper import SAMPLE_RATE

_SCALES = ((256, 20), (512, 40), (1024, 64), (2048, 80))
"""Points of the transform and mel bands."""
_FLOOR = 1e-2
"""Magnitude, at the shortest transform, below which differences are not heard."""
_LINEAR_WEIGHT = 0.25


@dataclass(frozen=True, slots=True)
class _Resolution:
    points: int
    window: Tensor
    bands: Tensor
    floor: float

    def magnitudes(self, pcm: Tensor) -> Tensor:
        """[rows, samples] to [rows, times, bands]."""
        spectrum = torch.stft(
            pcm, self.points, self.points // 4, window=self.window, return_complex=True
        )
        return spectrum.abs().transpose(1, 2) @ self.bands


class MelDistance:
    """Mean distance in log10 of mel magnitudes, with a share of the linear distance."""

    def __init__(self, device: torch.device) -> None:
        self._resolutions = [
            _Resolution(
                points,
                torch.hann_window(points, device=device),
                mel_bands(points, bands).to(device),
                _FLOOR * math.sqrt(points / _SCALES[0][0]),
            )
            for points, bands in _SCALES
        ]

    def __call__(self, made: Tensor, wanted: Tensor) -> Tensor:
        """Both [rows, samples] at 24 kHz; a distance a row, [rows]."""
        total = made.new_zeros(len(made))
        for scale in self._resolutions:
            a, b = scale.magnitudes(made), scale.magnitudes(wanted)
            logs = a.clamp(min=scale.floor).log10() - b.clamp(min=scale.floor).log10()
            linear = (a - b).abs().mean((1, 2)) / (b.mean((1, 2)) + 0.05)
            total = total + logs.abs().mean((1, 2)) + _LINEAR_WEIGHT * linear
        return total / len(self._resolutions)


def mel_bands(points: int, bands: int) -> Tensor:
    """Triangular filters, [points / 2 + 1, bands], over the mel scale of O'Shaughnessy."""
    top = 2595 * math.log10(1 + SAMPLE_RATE / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, bands + 2) / 2595) - 1)
    frequencies = torch.linspace(0, SAMPLE_RATE / 2, points // 2 + 1)[:, None]
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)
