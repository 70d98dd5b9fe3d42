"""Time as an argument: everything that waits or measures takes a `Clock`."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic time in seconds, and a way to wait for a moment of it."""

    def now(self) -> float:
        """Seconds on a monotonic clock; only differences mean anything."""
        ...

    async def sleep_until(self, when_s: float) -> None:
        """Return once `now() >= when_s`; at once (but yielding) if it already is."""
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep_until(self, when_s: float) -> None:
        await asyncio.sleep(max(0.0, when_s - self.now()))
        if (left := when_s - self.now()) > 0:
            # A timer may fire early by the loop clock's resolution.
            await asyncio.sleep(left)
