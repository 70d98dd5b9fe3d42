"""A tick as one captured graph, with its copies in and out of page-locked memory."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from numpy.typing import NDArray

from rtc_agent.model.cuda.capture import capture
from rtc_agent.model.cuda.packed import Packed


class Launches(Protocol):
    """What is captured: launches from one packed buffer of the device to another."""

    inbox: Packed
    outbox: Packed

    def launch(self) -> None:
        """Every launch of a tick, nothing waited for."""
        ...


class CapturedTick:
    """One copy in, the launches, one copy out: a single launch of the host's.

    Raises:
        CaptureFailed: the tick could not be captured.
    """

    def __init__(self, frame: Launches, device: torch.device) -> None:
        self._frame = frame
        self._device = device
        self._given = frame.inbox.on_host()
        self.made = frame.outbox.on_host()
        """What the last tick gave; written anew by the next."""
        self._graph = capture(self._launch, device)

    def _launch(self) -> None:
        self._frame.inbox.bytes.copy_(self._given.bytes, non_blocking=True)
        self._frame.launch()
        self.made.bytes.copy_(self._frame.outbox.bytes, non_blocking=True)

    def given(self, name: str) -> NDArray[Any]:
        """[rows, width] of a field, to be written before a tick."""
        field: NDArray[Any] = self._given[name].numpy()
        return field

    def run(self) -> None:
        """Run a tick and wait for what it gives."""
        self._graph.replay()
        torch.cuda.current_stream(self._device).synchronize()
