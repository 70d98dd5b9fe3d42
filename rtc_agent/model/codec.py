"""The codec's two halves as the rest of the model uses them, whoever computes them."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class EncoderState(Protocol):
    @property
    def device(self) -> torch.device: ...

    def reset(self, row: int) -> None: ...


class FrameEncoder(Protocol):
    """`MimiEncoder`, whoever computes it."""

    @property
    def state(self) -> EncoderState: ...

    def encode(self, pcm: Tensor, live: Tensor) -> tuple[Tensor, Tensor]:
        """As `MimiEncoder.encode`."""
        ...


class FrameDecoder(Protocol):
    """`MimiDecoder`, whoever computes it."""

    def decode(self, codes: Tensor, live: Tensor) -> Tensor:
        """As `MimiDecoder.decode`."""
        ...
