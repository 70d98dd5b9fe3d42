"""Banks of slots whose ticks are apart, so that a caller waits for the step of his own bank alone.

Each bank is a whole engine of its part of the slots, with a tick a fraction of a frame after that
of the bank before. All share one device, on which one piece of work runs at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from rtc_agent.clock import Clock
from rtc_agent.engine.banked import BankedStepper
from rtc_agent.engine.client import EngineStatus, FrameSink, FrameSource
from rtc_agent.engine.figures import status_of
from rtc_agent.engine.local import LEAVING_S, LocalEngine
from rtc_agent.engine.placed import PlacedSession
from rtc_agent.engine.placing import PacketTimes, offsets_s, soonest
from rtc_agent.engine.runner import StepRunner, ThreadRunner
from rtc_agent.engine.session import LocalSession
from rtc_agent.engine.slots import server_full
from rtc_agent.engine.stepper import FRAME_S, FrameStepper, SessionSpec, StepperInfo
from rtc_agent.engine.turns import DeviceTurns
from rtc_agent.errors import ServerFull


class StaggeredEngine:
    """An `EngineClient` of several engines. Where one of them cannot go on, none does: they share
    the device and the weights.

    Args:
        steppers: one a bank, of equal size.
        placing: a call goes on in the bank whose tick suits its packets; otherwise it stays in the
            one that had the most room, as it must where each further call makes a step longer.
    """

    def __init__(
        self,
        steppers: Sequence[FrameStepper],
        clock: Clock,
        runner: StepRunner,
        notice: str = "",
        *,
        placing: bool = False,
    ) -> None:
        if len({stepper.slots for stepper in steppers}) != 1:
            raise ValueError("banks are of one size")
        turns = DeviceTurns()
        self._clock = clock
        self.placing = placing
        self.banks = tuple(
            LocalEngine(stepper, clock, runner, notice, turns=turns, bank=bank)
            for bank, stepper in enumerate(steppers)
        )
        for bank in self.banks:
            bank.on_failure = self._fail

    @property
    def info(self) -> StepperInfo:
        return self.banks[0].info

    def status(self) -> EngineStatus:
        return status_of(
            [bank.figures for bank in self.banks],
            next(filter(None, (bank.failure for bank in self.banks)), ""),
            self._slots,
            sum(bank.slots_free for bank in self.banks),
        )

    @property
    def _slots(self) -> int:
        return sum(bank.slots for bank in self.banks)

    def step_running_s(self) -> float:
        """As `LocalEngine.step_running_s`, of whichever bank's."""
        return max(bank.step_running_s() for bank in self.banks)

    def next_tick_s(self) -> float:
        """The next tick of any bank."""
        return min(bank.next_tick_s() for bank in self.banks)

    def check(self, spec: SessionSpec) -> None:
        self.banks[0].check(spec)

    def start(self) -> None:
        """Begin ticking on the running event loop, the banks spread over a frame."""
        first_s = self._clock.now() + FRAME_S
        after_s = offsets_s(len(self.banks), to_packets=self.placing)
        for bank, offset_s in zip(self.banks, after_s, strict=True):
            bank.start(first_s + offset_s)

    async def open(
        self, spec: SessionSpec, source: FrameSource, sink: FrameSink, call_id: str
    ) -> BankSession:
        """As `EngineClient.open`, in the bank with the most free slots, where its prompt is run;
        `PlacedSession` tells of where it goes on."""
        if not self.placing:
            return await self._open(spec, source, sink, call_id)
        session = PlacedSession(spec, source, sink, call_id, self._clock, self._other_bank)
        session.opened(await self._open(spec, source, session, call_id))
        return session

    def _other_bank(self, session: LocalSession, times: PacketTimes) -> LocalEngine | None:
        """The bank that suits a session's packets better than its own, if there is one."""
        best = soonest(self.banks, session.bank, times)
        return None if best == session.bank else self.banks[best]

    async def _open(
        self, spec: SessionSpec, source: FrameSource, sink: FrameSink, call_id: str
    ) -> LocalSession:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVING_S):
                while True:
                    for bank in sorted(self.banks, key=lambda bank: -bank.slots_free):
                        with contextlib.suppress(ServerFull):
                            return await bank.open(spec, source, sink, call_id)
                    # One may have been left in a bank before while that of another was waited for.
                    if not any(bank.slots_free or bank.leaving for bank in self.banks):
                        break
        raise server_full(self._slots)

    async def aclose(self) -> None:
        """As `LocalEngine.aclose`; every bank stops ticking before the first is taken down."""
        for bank in self.banks:
            await bank.halt()
        for bank in self.banks:
            await bank.aclose()

    def _fail(self, reason: str) -> None:
        for bank in self.banks:
            if not bank.failure:
                bank.fail(reason)


BankSession = LocalSession | PlacedSession
Engine = LocalEngine | StaggeredEngine
"""An engine in this process."""


def create_engine(stepper: FrameStepper, clock: Clock, notice: str = "") -> Engine:
    """The engine for a stepper: of one tick, or of one for each of its banks."""
    if isinstance(stepper, BankedStepper):
        return StaggeredEngine(
            stepper.banks, clock, ThreadRunner(), notice, placing=not stepper.row_by_row
        )
    return LocalEngine(stepper, clock, ThreadRunner(), notice, ThreadRunner())
