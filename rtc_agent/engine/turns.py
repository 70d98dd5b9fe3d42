"""One device, several engines: whose work it does next, and when it is free for openings."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol

from rtc_agent.engine.session import LocalSession


class Bank(Protocol):
    """An engine as those see it that share its device."""

    def next_tick_s(self) -> float: ...

    def opening_sessions(self) -> Sequence[LocalSession]:
        """Those that are being prepared."""
        ...


class DeviceTurns:
    """What engines on one device share, each of which ticks a bank of the slots.

    One piece of work runs at a time, in the order in which it was asked for. Pieces of openings, of
    whichever bank, are run by the bank that has stepped last, until the next tick of any.
    """

    def __init__(self) -> None:
        self._banks: list[Bank] = []
        self._work = asyncio.Lock()
        self._steps = 0
        self._preparing = False
        self.piece_s = 0.0
        """How long a piece of an opening is reckoned to take."""

    def join(self, bank: Bank) -> None:
        self._banks.append(bank)

    def next_tick_s(self) -> float:
        """The next tick of any bank."""
        return min(bank.next_tick_s() for bank in self._banks)

    def openings(self, first: Bank) -> list[LocalSession]:
        """Sessions of all banks that are being prepared, one bank's before the others'."""
        others = (bank for bank in self._banks if bank is not first)
        return [session for bank in (first, *others) for session in bank.opening_sessions()]

    @property
    def stepping(self) -> bool:
        """Whether a step runs, or waits for what runs."""
        return self._steps > 0

    @contextlib.asynccontextmanager
    async def step(self) -> AsyncIterator[None]:
        """The device's turn for a bank's step."""
        self._steps += 1
        try:
            async with self._work:
                yield
        finally:
            self._steps -= 1

    @contextlib.asynccontextmanager
    async def piece(self) -> AsyncIterator[None]:
        """The device's turn for a piece of an opening."""
        async with self._work:
            yield

    @contextlib.contextmanager
    def preparing(self) -> Iterator[bool]:
        """Whether this bank is the one to run pieces now: another may not be done with its own."""
        if self._preparing:
            yield False
            return
        self._preparing = True
        try:
            yield True
        finally:
            self._preparing = False
