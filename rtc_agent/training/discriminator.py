"""Discriminators over complex spectrograms, for the decoder's fine-tuning.

After EnCodec (Défossez et al. 2022, section 3.4): hinge losses, and the distance of the features
that real and made speech leave in them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

_POINTS = (1920, 960, 480)
_CHANNELS = 32


class SpectrogramDiscriminator(nn.Module):
    """Judges patches of one resolution's spectrogram."""

    def __init__(self, points: int, channels: int = _CHANNELS) -> None:
        super().__init__()
        self._points = points
        self.register_buffer("_window", torch.hann_window(points), persistent=False)

        def conv(inputs: int, stride: int, dilation: int, kernel: int = 9) -> nn.Module:
            padding = (dilation, kernel // 2)
            shape = (3, kernel)
            return weight_norm(
                nn.Conv2d(inputs, channels, shape, (1, stride), padding, dilation=(dilation, 1))
            )

        self._layers = nn.ModuleList(
            [conv(2, 1, 1), *(conv(channels, 2, d) for d in (1, 2, 4)), conv(channels, 1, 1, 3)]
        )
        self._verdict = weight_norm(nn.Conv2d(channels, 1, 3, padding=1))

    def forward(self, pcm: Tensor) -> tuple[Tensor, list[Tensor]]:
        """[rows, samples] to the patches' verdicts and every layer's features."""
        window = self._window
        spectrum = torch.stft(
            pcm,
            self._points,
            self._points // 4,
            window=window,
            normalized=True,
            return_complex=True,
        )
        x = torch.stack((spectrum.real, spectrum.imag), 1).transpose(2, 3)
        features = []
        for layer in self._layers:
            x = F.leaky_relu(layer(x), 0.2)
            features.append(x)
        return self._verdict(x), features


class Discriminators(nn.Module):
    """Three resolutions together."""

    def __init__(self, channels: int = _CHANNELS) -> None:
        super().__init__()
        self._parts = nn.ModuleList([SpectrogramDiscriminator(n, channels) for n in _POINTS])

    def loss(self, real: Tensor, made: Tensor) -> Tensor:
        """What the discriminators minimise."""
        total = real.new_zeros(())
        for part in self._parts:
            genuine, _ = part(real)
            false, _ = part(made.detach())
            total = total + F.relu(1 - genuine).mean() + F.relu(1 + false).mean()
        return total / len(self._parts)

    def judge(self, real: Tensor, made: Tensor) -> tuple[Tensor, Tensor]:
        """What the decoder minimises: how false it sounds, and how far its features are off."""
        falseness, features = real.new_zeros(()), real.new_zeros(())
        for part in self._parts:
            with torch.no_grad():
                _, wanted = part(real)
            verdict, found = part(made)
            falseness = falseness - verdict.mean()
            distances = [
                (a - b).abs().mean() / (a.abs().mean() + 1e-4)
                for a, b in zip(wanted, found, strict=True)
            ]
            features = features + torch.stack(distances).mean()
        return falseness / len(self._parts), features / len(self._parts)
