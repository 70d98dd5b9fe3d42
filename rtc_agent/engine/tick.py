"""The engine's time: absolute deadlines one frame apart, and what to do when they are missed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rtc_agent.clock import Clock
from rtc_agent.engine.stepper import FRAME_S


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick that is to run now."""

    index: int
    """Ticks since the clock started, skipped ones counted."""
    skipped: int
    """Ticks directly before this one that were missed by a whole frame and will not run."""
    late_s: float
    """How long after its deadline this tick starts; always under one frame."""


class TickClock:
    """Deadlines `FRAME_S` apart on a monotonic clock.

    A tick that starts late does not move the ones after it, so lateness is caught up as soon as
    steps are quick again. One that is late by a whole frame is skipped instead: lateness never
    reaches a frame, however slow or stuck the stepper was.
    """

    def __init__(self, clock: Clock, origin_s: float | None = None) -> None:
        """
        Args:
            origin_s: when tick 0 is due, on this clock; a frame from now if left out. With an
                origin in the past, the ticks before now are not counted as missed.
        """
        now = clock.now()
        self._clock = clock
        self.origin_s = now + FRAME_S if origin_s is None else origin_s
        self.lead_s = 0.0
        """How long before each deadline `wait` returns."""
        self._next = max(0, math.ceil((now - self.origin_s) / FRAME_S))

    def deadline_s(self, index: int) -> float:
        """When tick `index` is due, in seconds of the injected clock."""
        return self.origin_s + index * FRAME_S

    @property
    def next_s(self) -> float:
        """The deadline of the tick that comes next."""
        return self.deadline_s(self._next)

    async def wait(self) -> Tick:
        """Sleep until the next tick is due and return it."""
        due_s = self.next_s - self.lead_s
        await self._clock.sleep_until(due_s)
        late_s = self._clock.now() - due_s
        skipped = max(0, math.floor(late_s / FRAME_S))
        self._next += skipped + 1
        return Tick(self._next - 1, skipped, late_s - skipped * FRAME_S)
