"""Recordings on the device, out of which random crops are cut in one indexing operation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from rtc_agent.training.data.batch import Samples

_FULL_SCALE = 32767


class ClipBank:
    """Recordings one after another, with pauses between, as 16-bit samples."""

    def __init__(self, clips: Iterable[Samples], rng: np.random.Generator) -> None:
        pieces: list[np.ndarray] = []
        for clip in clips:
            pieces.append((np.clip(clip, -1, 1) * _FULL_SCALE).astype(np.int16))
            pieces.append(np.zeros(rng.integers(_SHORTEST_PAUSE, _LONGEST_PAUSE), np.int16))
        self._samples = torch.from_numpy(
            np.concatenate(pieces) if pieces else np.zeros(0, np.int16)
        )

    def to(self, device: torch.device) -> ClipBank:
        self._samples = self._samples.to(device)
        return self

    def __len__(self) -> int:
        """In samples."""
        return len(self._samples)

    def crops(
        self, n: int, samples: int, chance: torch.Generator, speeds: tuple[float, float] = (1, 1)
    ) -> Tensor:
        """[n, samples] in −1 … 1, each played at a speed of its own.

        Raises:
            ValueError: there is less than one crop of sound.
        """
        slowest, fastest = speeds
        room = len(self) - int(samples * fastest) - 2
        if room < 0:
            raise ValueError(f"{len(self)} samples are too few for crops of {samples}")
        device = self._samples.device

        def draw(dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.rand((n, 1), device=device, generator=chance, dtype=dtype)

        speed = slowest + (fastest - slowest) * draw()
        start = (draw(torch.float64) * room).long()
        at = torch.arange(samples, device=device) * speed
        whole = at.long()
        part = at - whole
        index = start + whole
        here, after = (self._samples[i].float() / _FULL_SCALE for i in (index, index + 1))
        return here * (1 - part) + after * part


_SHORTEST_PAUSE = 2_000
_LONGEST_PAUSE = 10_000
"""Samples of silence between clips: 0.08 to 0.4 s."""
