"""One call's recording as the event loop sees it: frames and words go in, and nothing waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rtc_agent.engine.stepper import Pcm
from rtc_agent.protocol.events import FRAME_MS

Stereo = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sound:
    """A frame: [1920, 2] samples, caller left and agent right."""

    index: int
    """Frames since the recording began. A gap is silence."""
    samples: Stereo


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of the transcript."""

    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class End:
    """The recording is over; nothing follows."""

    fields: dict[str, Any]


Piece = Sound | Line | End


class Recorder:
    """Turns what happens in a call into pieces of a recording.

    A piece that cannot be taken at once is left out and counted; the call never waits.
    """

    def __init__(self, put: Callable[[Piece], bool]) -> None:
        """
        Args:
            put: takes a piece, or says False at once. An `End` is always taken.
        """
        self._put = put
        self._base = 0
        self._next = 0
        self._ended = False
        self.dropped = 0
        """Pieces that were left out."""

    def frame(self, index: int, caller: Pcm, agent: Pcm, text: str = "") -> None:
        """What both said in a frame of the call, and the words that came with it."""
        if self._base + index < self._next:
            # The conversation began anew, with another voice; the recording goes on.
            self._base = self._next
        at = self._base + index
        self._next = at + 1
        self._give(Sound(at, np.stack((caller, agent), axis=1)))
        if text:
            self._note("text", who="agent", delta=text)

    def speech(self, who: str, speaking: bool) -> None:
        """Somebody began or ceased to speak."""
        self._note("speech", who=who, state="started" if speaking else "stopped")

    def close(self, reason: str) -> None:
        """The call is over. Idempotent."""
        if not self._ended:
            self._ended = True
            fields = {"reason": reason, "frames": self._next, "dropped": self.dropped}
            self._put(End(self._entry("ended", fields)))

    def _note(self, type_: str, **fields: Any) -> None:
        self._give(Line(self._entry(type_, fields)))

    def _entry(self, type_: str, fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": type_, "t_ms": self._next * FRAME_MS, **fields}

    def _give(self, piece: Piece) -> None:
        if not self._ended and not self._put(piece):
            self.dropped += 1
