"""Waiting longer after every failure."""

from __future__ import annotations

import asyncio
import random

FIRST_S = 0.5


class Backoff:
    """Waits of half a second and up, doubled each time, with chance so that many clients of a
    restarted gateway do not all come at once."""

    def __init__(self, limit_s: float, chance: random.Random | None = None) -> None:
        self._limit_s = limit_s
        self._chance = chance or random.Random()
        self._next_s = FIRST_S

    def next_s(self) -> float:
        """How long to wait this time, in seconds: between half and all of the full wait."""
        full, self._next_s = self._next_s, self._next_s * 2
        return min(full, self._limit_s) * self._chance.uniform(0.5, 1.0)

    def reset(self) -> None:
        """It worked."""
        self._next_s = FIRST_S

    async def wait(self) -> None:
        await asyncio.sleep(self.next_s())
