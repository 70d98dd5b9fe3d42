"""The engine in this process: one stepper, its slots and the tick that moves all calls at once."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from rtc_agent.clock import Clock
from rtc_agent.engine.client import CALL_FAILED, AgentFrame, EngineStatus, FrameSink, FrameSource
from rtc_agent.engine.figures import EngineFigures, status_of
from rtc_agent.engine.runner import StepRunner
from rtc_agent.engine.session import LocalSession, Phase
from rtc_agent.engine.slots import Lease, SlotTable
from rtc_agent.engine.stepper import (
    FRAME_S,
    FRAME_SAMPLES,
    FrameStepper,
    PipelinedStepper,
    SessionSpec,
    StepperInfo,
    StepResult,
    opens_at_once,
)
from rtc_agent.engine.tick import Tick, TickClock
from rtc_agent.engine.turns import DeviceTurns
from rtc_agent.errors import EngineFailed, RtcAgentError, StageFailed

log = logging.getLogger(__name__)
T = TypeVar("T")

LEAVING_S = 0.5
"""How long a slot that its session has closed is waited for; it is left before the next tick."""


_Numbered = tuple[LocalSession, int]
"""A session and its own number of a tick."""


class LocalEngine:
    """Steps every live session once a tick and runs the opening of others in between.

    A fault stays where it happened: a session whose source or sink raises, or whose row the stepper
    reports as failed, ends alone. A step that raises is tried once more with the same frames; if
    that raises too, the stepper cannot be trusted any longer and all sessions end with a reason.

    Args:
        collector: waits for the sound of a `PipelinedStepper`, while `runner` does the next step.
            Without one, every step is waited for whole.
        turns: shared with other engines on the same device; then `runner` is too.
        bank: this engine's number among them.
    """

    placing = False
    """Calls choose no bank; see `StaggeredEngine`."""

    def __init__(
        self,
        stepper: FrameStepper,
        clock: Clock,
        runner: StepRunner,
        notice: str = "",
        collector: StepRunner | None = None,
        turns: DeviceTurns | None = None,
        bank: int = 0,
    ) -> None:
        self.bank = bank
        self.first_slot = bank * stepper.slots
        """Slots of the banks before this one."""
        self.on_failure: Callable[[str], None] = lambda reason: None
        """Told why, when this engine cannot go on."""
        self.figures = EngineFigures()
        self._turns = turns or DeviceTurns()
        self._turns.join(self)
        self._stepper = stepper
        self._collector = collector
        self._delivery: asyncio.Task[None] | None = None
        """The last step's sound, on its way to the calls."""
        self._delivered_tick = 0
        self._info = replace(stepper.info, notice=notice)
        self._clock = clock
        self._runner = runner
        self._slots = SlotTable(stepper.slots)
        self._sessions: dict[int, LocalSession] = {}
        self._closing: list[LocalSession] = []
        self._reopening: dict[LocalSession, SessionSpec] = {}
        self._freed = asyncio.Event()
        self._pcm = np.zeros((stepper.slots, FRAME_SAMPLES), np.float32)
        self._tick_clock = TickClock(clock)
        self._tick_index = 0
        self._step_began: float | None = None
        self._failure = "The engine has not been started."
        self._loop_task: asyncio.Task[None] | None = None

    @property
    def info(self) -> StepperInfo:
        return self._info

    @property
    def banks(self) -> tuple[LocalEngine, ...]:
        """The engines whose ticks are apart: this one alone."""
        return (self,)

    @property
    def slots(self) -> int:
        return self._slots.size

    @property
    def slots_free(self) -> int:
        return self._slots.free

    @property
    def failure(self) -> str:
        """Why it does not run; empty if it does."""
        return self._failure

    def status(self) -> EngineStatus:
        return status_of([self.figures], self._failure, self.slots, self.slots_free)

    def step_running_s(self) -> float:
        """How long the step in progress has taken so far; 0 between steps."""
        return 0.0 if self._step_began is None else self._clock.now() - self._step_began

    @property
    def origin_s(self) -> float:
        """When tick 0 was due, on the engine's clock."""
        return self._tick_clock.origin_s

    @property
    def tick_index(self) -> int:
        """The tick that is running, or ran last."""
        return self._tick_index

    @property
    def delivered_tick(self) -> int:
        """The tick whose frames are being given to the calls, or were last."""
        return self._delivered_tick

    def next_tick_s(self) -> float:
        return self._tick_clock.next_s

    def check(self, spec: SessionSpec) -> None:
        self._stepper.check(spec)

    def opening_sessions(self) -> list[LocalSession]:
        return [s for s in self._sessions.values() if s.phase is Phase.OPENING]

    def start(self, origin_s: float | None = None) -> None:
        """Begin ticking on the running event loop, the first time at `origin_s` or in a frame."""
        self._failure = ""
        self._tick_clock = TickClock(self._clock, origin_s)
        self._loop_task = asyncio.get_running_loop().create_task(self._run(), name="engine")

    async def open(
        self, spec: SessionSpec, source: FrameSource, sink: FrameSink, call_id: str
    ) -> LocalSession:
        if self._failure:
            raise EngineFailed(self._failure, retry_after_s=10)
        with _as_its_own(call_id):
            self._stepper.check(spec)
        lease = await self._take_slot()
        return self._open_in(lease, spec, source, sink, call_id)

    def opens_at_once(self, spec: SessionSpec) -> bool:
        """Whether a session of that spec would have no prompt to run."""
        return opens_at_once(self._stepper, spec)

    def open_now(
        self, spec: SessionSpec, source: FrameSource, sink: FrameSink, call_id: str
    ) -> LocalSession:
        """As `open`, of a spec that was checked, and waiting for no slot to be left."""
        return self._open_in(self._slots.take(), spec, source, sink, call_id)

    def _open_in(
        self, lease: Lease, spec: SessionSpec, source: FrameSource, sink: FrameSink, call_id: str
    ) -> LocalSession:
        try:
            with _as_its_own(call_id):
                opening = self._stepper.open(lease.slot, spec)
        except BaseException:
            self._slots.release(lease)
            raise
        session = LocalSession(
            lease,
            opening,
            source,
            sink,
            call_id,
            self._closing.append,
            self._reopening.__setitem__,
            self.bank,
        )
        self._sessions[lease.slot] = session
        return session

    async def _take_slot(self) -> Lease:
        """A free slot, or one that a closed session is about to leave: a caller who hangs up and
        calls again at once is not refused because of the call before.

        Raises:
            ServerFull: every slot is taken by a session that goes on.
            EngineFailed: the engine failed meanwhile.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVING_S):
                while not self._slots.free and self.leaving:
                    self._freed.clear()
                    await self._freed.wait()
        if self._failure:
            raise EngineFailed(self._failure, retry_after_s=10)
        return self._slots.take()

    @property
    def leaving(self) -> bool:
        """Whether a session has closed whose slot is not free yet."""
        return any(session.phase is Phase.CLOSED for session in self._sessions.values())

    def fail(self, reason: str) -> None:
        """Tick no more, and end every session with that reason."""
        if self._loop_task is not None:
            self._loop_task.cancel()
        self._fail(reason)

    async def halt(self) -> None:
        """Tick no more; sessions are told nothing yet. Idempotent."""
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.gather(self._loop_task, return_exceptions=True)
            if self._delivery is not None:
                self._delivery.cancel()
                await asyncio.gather(self._delivery, return_exceptions=True)

    async def aclose(self) -> None:
        """Stop ticking and release the stepper. Sessions still open are told. Idempotent."""
        if self._loop_task is not None:
            await self.halt()
            self._loop_task = None
            self._fail("The engine was stopped.")
            self._runner.shutdown()
            if self._collector is not None:
                self._collector.shutdown()
            self._stepper.shutdown()

    async def _run(self) -> None:
        try:
            while True:
                await self._free_closed()
                await self._prepare()
                tick = await self._tick_clock.wait()
                await self._free_closed()
                await self._tick(tick)
        except asyncio.CancelledError:
            raise
        except StageFailed as error:
            log.critical("the engine stopped; all its calls end: %s", error.message)
            self._fail(error.message)
            self.on_failure(error.message)
        except Exception:
            log.exception("the engine stopped; all its calls end")
            self._fail("The engine failed; see the server's log.")
            self.on_failure(self._failure)

    async def _free_closed(self) -> None:
        """Slots of closed sessions, made free on the stepper's own thread; those of reopened ones
        are at once opened again. What a stepper still makes for them is waited for."""
        if self._reopening or self._closing:
            await self._delivered()
        while self._reopening:
            session, spec = self._reopening.popitem()
            if session.phase is Phase.REOPENING:
                await self._runner.run(partial(self._close_slot, session))
            if session.phase is Phase.REOPENING:
                self._guard(session, partial(self._open_again, session, spec))
        while self._closing:
            session = self._closing.pop()
            slot = session.lease.slot
            await self._runner.run(partial(self._close_slot, session))
            del self._sessions[slot]
            self._slots.release(session.lease)
            self._freed.set()

    def _open_again(self, session: LocalSession, spec: SessionSpec) -> None:
        session.opening = self._stepper.open(session.lease.slot, spec)
        session.phase = Phase.OPENING
        session.opening_s = 0.0

    def _close_slot(self, session: LocalSession) -> None:
        if close := getattr(session.opening, "close", None):
            close()
        self._stepper.close(session.lease.slot)

    async def _prepare(self) -> None:
        """Run pieces of openings while another one fits before the tick; at least one of each turn,
        or a busy engine would never open a call."""
        turns = self._turns
        with turns.preparing() as is_mine:
            opening = collections.deque(turns.openings(self) if is_mine else ())
            first = True
            while opening:
                if not first and turns.stepping:
                    # Another bank's tick has come; it goes on with this after its step.
                    return
                session = opening.popleft()
                async with turns.piece():
                    started = self._clock.now()
                    if not first and started + turns.piece_s > turns.next_tick_s():
                        return
                    if session.phase is not Phase.OPENING:
                        continue
                    first = False
                    if await self._prepare_piece(session):
                        opening.append(session)
                    self._note_piece(session, self._clock.now() - started)

    async def _prepare_piece(self, session: LocalSession) -> bool:
        """One piece of a session's opening; whether there is more."""
        try:
            more = await self._runner.run(lambda: next(session.opening, session) is not session)
        except Exception as error:
            log.exception("opening a session failed", extra={"call_id": session.call_id})
            self._end(session, f"The agent could not be prepared: {error}")
            return False
        if not more and session.phase is Phase.OPENING:
            session.phase = Phase.READY
            self._guard(session, session.sink.on_ready)
        return more

    def _note_piece(self, session: LocalSession, took_s: float) -> None:
        session.opening_s += took_s
        self.figures.longest_piece_s = max(self.figures.longest_piece_s, took_s)
        self._turns.piece_s = max(took_s, 0.9 * self._turns.piece_s)
        if session.ready:
            self.figures.open_s.append(session.opening_s)

    async def _tick(self, tick: Tick) -> None:
        self._tick_index = tick.index
        self.figures.skipped += tick.skipped
        live = [s for s in self._sessions.values() if s.phase is Phase.LIVE]
        if tick.skipped:
            for session in live:
                self._guard(session, partial(self._skip, session, tick.skipped))
        reserved = [s for s in live if self._guard(s, partial(self._reserve, s))]
        if not reserved:
            return
        mask = np.zeros(self._slots.size, np.bool_)
        mask[[s.lease.slot for s in reserved]] = True
        stepper = self._stepper
        if self._collector is not None and isinstance(stepper, PipelinedStepper):
            finish = await self._step(reserved, lambda: stepper.begin(self._pcm, mask))
            frames = self._consume(reserved, tick)
            await self._delivered()
            sound = self._collector.run(finish)
            self._delivery = asyncio.create_task(self._deliver_later(frames, tick, sound))
        else:
            result = await self._step(reserved, lambda: stepper.step(self._pcm, mask))
            self._deliver_all(self._consume(reserved, tick), tick, result)
        if self._step_began is not None:
            self.figures.note_step(self._clock.now() - self._step_began)
            self._step_began = None

    def _consume(self, sessions: Sequence[LocalSession], tick: Tick) -> list[_Numbered]:
        """Their frames were stepped: commit them, and number them."""
        self.figures.ticks += 1
        return [
            (session, session.frame_index(tick.index))
            for session in sessions
            if session.phase is Phase.LIVE and self._guard(session, session.source.commit)
        ]

    async def _deliver_later(
        self, frames: Sequence[_Numbered], tick: Tick, sound: Awaitable[StepResult]
    ) -> None:
        self._deliver_all(frames, tick, await sound)

    async def _delivered(self) -> None:
        """Once nothing is on its way to the calls."""
        if self._delivery is not None:
            await self._delivery
            self._delivery = None

    def _deliver_all(self, frames: Sequence[_Numbered], tick: Tick, result: StepResult) -> None:
        self._delivered_tick = tick.index
        for session, index in frames:
            if session.phase is Phase.LIVE:
                self._guard(session, partial(self._deliver, session, index, result))

    def _skip(self, session: LocalSession, ticks: int) -> None:
        if not session.stepped:
            return
        for _ in range(ticks):
            session.source.skip()
        session.sink.on_skipped(ticks)

    def _reserve(self, session: LocalSession) -> None:
        self._pcm[session.lease.slot] = session.source.reserve()

    async def _step(self, sessions: list[LocalSession], work: Callable[[], T]) -> T:
        """What the stepper makes of the reserved frames."""
        async with self._turns.step():
            self._step_began = self._clock.now()
            try:
                return await self._runner.run(work)
            except StageFailed:
                raise
            except Exception:
                log.exception("a step failed; it is tried once more with the same frames")
                for session in sessions:
                    self._guard(session, session.source.rollback)
                    self._guard(session, partial(self._reserve, session))
                return await self._runner.run(work)

    def _deliver(self, session: LocalSession, index: int, result: StepResult) -> None:
        slot = session.lease.slot
        if (reason := result.failed.get(slot)) is not None:
            self._end(session, reason)
            return
        self._tell_of_sound(session, slot in result.lost)
        session.sink.on_frame(AgentFrame(index, result.pcm[slot].copy(), result.text.get(slot, "")))

    def _tell_of_sound(self, session: LocalSession, lost: bool) -> None:
        """Say it when a voice breaks off through our fault, and when it is back."""
        if lost:
            self.figures.lost_frames += 1
            session.unheard += 1
            if session.unheard == 1:
                session.sink.tell(
                    "voice_lost",
                    "The agent's voice breaks off through a fault here. It goes on listening; "
                    "its voice comes back by itself.",
                )
        elif session.unheard:
            ms = round(1e3 * FRAME_S * session.unheard)
            session.sink.tell(
                "voice_back",
                f"The agent's voice is back; {ms} ms of it could not be heard.",
                frames=session.unheard,
            )
            session.unheard = 0

    def _guard(self, session: LocalSession, action: Callable[[], None]) -> bool:
        """Run something that belongs to one session; a fault of it ends that session alone."""
        try:
            action()
        except Exception:
            log.exception(
                "a session failed; only its call ends", extra={"call_id": session.call_id}
            )
            self._end(session, CALL_FAILED)
            return False
        return True

    def _end(self, session: LocalSession, reason: str) -> None:
        if session.phase is Phase.CLOSED:
            return
        session.close()
        try:
            session.sink.on_failed(reason)
        except Exception:
            log.exception("a call could not be told of its end", extra={"call_id": session.call_id})

    def _fail(self, reason: str) -> None:
        self._failure = reason
        for session in list(self._sessions.values()):
            self._end(session, reason)
            self._slots.release(session.lease)
        self._sessions.clear()
        self._closing.clear()
        self._reopening.clear()
        self._freed.set()


@contextlib.contextmanager
def _as_its_own(call_id: str) -> Iterator[None]:
    """What a stepper raises beyond refusals is the agent's fault, and no fault of the request."""
    try:
        yield
    except RtcAgentError:
        raise
    except Exception as error:
        log.exception("the agent could not take a call", extra={"call_id": call_id})
        raise EngineFailed(
            "The agent could not take this call; the server's log has the reason.",
            retry_after_s=10,
        ) from error
