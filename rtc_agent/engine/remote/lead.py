"""How long before a tick callers' frames are handed over, learned from how late that gets done."""

from __future__ import annotations

from collections import deque

LEAST_S = 0.004
"""What scheduling may cost on a machine that keeps up."""
MOST_S = 0.012
SPARE_S = 0.001
"""A hand-over that ends so shortly before its tick was nearly too late."""
STEP_S = 0.002
WINDOW_TICKS = 750
"""A minute, for which a longer lead is kept."""
_LET_PASS = 1
"""A hitch now and then is no reason: every call waits for the lead, all the time."""


class Lead:
    """A frame that is not there at its tick is 80 ms that the agent does not hear. Where a machine
    is so busy that this threatens, frames are handed over earlier; that much later they are heard.
    """

    def __init__(self) -> None:
        self.seconds = LEAST_S
        self._tick = 0
        self._close: deque[int] = deque()
        """Ticks of the window for which it was close, with the lead that is."""
        self._calm_since = 0

    def observe(self, spare_s: float) -> None:
        """The last frame was handed over so long before its tick; negative if after."""
        self._tick += 1
        while self._close and self._tick - self._close[0] >= WINDOW_TICKS:
            self._close.popleft()
        if spare_s < SPARE_S:
            self._close.append(self._tick)
            if len(self._close) > _LET_PASS:
                self.seconds = min(self.seconds + STEP_S, MOST_S)
                self._close.clear()
                self._calm_since = self._tick
        elif self._tick - self._calm_since >= WINDOW_TICKS:
            self.seconds = max(self.seconds - STEP_S / 2, LEAST_S)
            self._calm_since = self._tick
