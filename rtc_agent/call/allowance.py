"""How many messages a caller may send: as many as any client needs, and no flood."""

from __future__ import annotations

from rtc_agent.clock import Clock

MESSAGES_PER_S = 100.0
BURST = 1_000
"""Messages at once after a time of few."""
PATIENCE = 1_000
"""Messages beyond what is allowed that are let fall before the call is given up."""


class Allowance:
    """A token bucket. Every message costs the one event loop that all calls share."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = float(BURST)
        self._filled_s = clock.now()
        self._refused = 0

    def take(self) -> bool:
        """Whether one more message may be looked at now."""
        now = self._clock.now()
        self._left = min(BURST, self._left + (now - self._filled_s) * MESSAGES_PER_S)
        self._filled_s = now
        if self._left < 1:
            self._refused += 1
            return False
        self._left -= 1
        return True

    @property
    def exhausted(self) -> bool:
        """So many were refused that this is a flood."""
        return self._refused > PATIENCE
