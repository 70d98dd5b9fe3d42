"""Notices an agent that is read but not heard."""

from __future__ import annotations

from collections import deque
from enum import StrEnum

AUDIBLE_DBFS = -60.0
"""A frame above this can be heard."""
LIMIT_S = 5.0
MIN_TEXTS = 8
"""A remark now and then may well come without sound; a spoken sentence is many pieces of text."""


class SoundFault(StrEnum):
    """What is wrong with an agent's voice."""

    SILENT = "silent"
    """It goes on saying text, and all its audio is silence."""
    UNSENT = "unsent"
    """Its audio is made, and no packet leaves."""


class SoundWatchdog:
    """Follows one call's agent frames and packets; `fault` tells a fault once, until it is over."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._texts: deque[float] = deque(maxlen=MIN_TEXTS)
        self._audible_s: float | None = None
        self._sent = -1
        self._sent_s: float | None = None
        self._frame_s: float | None = None
        self._told: SoundFault | None = None

    def frame(self, now_s: float, text: str, level_dbfs: float) -> None:
        """An agent frame was handed to the transport."""
        if self._audible_s is None or level_dbfs > AUDIBLE_DBFS:
            self._audible_s = now_s
        if text.strip():
            self._texts.append(now_s)
        self._frame_s = now_s

    def sent(self, now_s: float, packets: int) -> None:
        """So many packets have left in all."""
        if packets != self._sent:
            self._sent, self._sent_s = packets, now_s

    def fault(self, now_s: float) -> SoundFault | None:
        """A fault that was not there before; None if there is none or it was told already."""
        found = self._look(now_s)
        if found == self._told:
            return None
        self._told = found
        return found

    def _look(self, now_s: float) -> SoundFault | None:
        if self._frame_s is None or now_s - self._frame_s > self._limit_s:
            return None
        if self._sent_s is not None and now_s - self._sent_s >= self._limit_s:
            return SoundFault.UNSENT
        silent_s = now_s - (self._audible_s if self._audible_s is not None else now_s)
        many = len(self._texts) == MIN_TEXTS and now_s - self._texts[0] <= silent_s
        return SoundFault.SILENT if many and silent_s >= self._limit_s else None
