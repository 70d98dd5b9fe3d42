"""A clock that tests move: hours pass in milliseconds, and always the same way."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SETTLE_TURNS = 20
"""Turns of the event loop that tasks woken at one moment get before time moves on."""


class VirtualClock:
    """A `Clock` whose time moves only in `run_for` or `advance`."""

    def __init__(self, start_s: float = 1_000.0) -> None:
        self._now = start_s
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass without waking anybody: what a blocking piece of work does."""
        self._now += seconds

    async def sleep_until(self, when_s: float) -> None:
        woken = asyncio.Event()
        heapq.heappush(self._sleepers, (when_s, next(self._order), woken))
        await woken.wait()

    async def run_for(self, seconds: float) -> None:
        """Let time pass, waking sleepers in order of their deadlines."""
        end = self._now + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            when, _, woken = heapq.heappop(self._sleepers)
            self._now = max(self._now, when)
            woken.set()
            await self._settle()
        self._now = max(self._now, end)

    async def _settle(self) -> None:
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)


class InlineRunner:
    """A `StepRunner` that works in place, so that a virtual clock sees every step."""

    async def run(self, work: Callable[[], T]) -> T:
        return work()

    def shutdown(self) -> None:
        pass
