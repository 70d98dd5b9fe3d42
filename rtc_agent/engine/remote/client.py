"""A media process's side of the socket: an `EngineClient` whose engine is elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from rtc_agent.clock import Clock
from rtc_agent.engine.client import (
    CALL_FAILED,
    AgentFrame,
    EngineSession,
    EngineStatus,
    FrameSink,
    FrameSource,
)
from rtc_agent.engine.placing import first_packets
from rtc_agent.engine.remote.lead import Lead
from rtc_agent.engine.remote.memory import FrameMemory
from rtc_agent.engine.remote.session import RemoteSession
from rtc_agent.engine.remote.wire import (
    MAX_LINE_BYTES,
    Message,
    Wire,
    pack_spec,
    unpack_error,
    unpack_info,
    unpack_status,
)
from rtc_agent.engine.stepper import SessionSpec, StepperInfo
from rtc_agent.engine.tick import Tick, TickClock
from rtc_agent.errors import EngineFailed, InvalidPersona, UnknownVoice

log = logging.getLogger(__name__)

CONNECT_EVERY_S = 0.25
OPEN_TIMEOUT_S = 2.0
STALE_S = 2.0
"""An engine that has not told its status for so long does not work at the moment."""
_NOTHING = np.zeros(0, np.float32)
LOADING = "The agent is being loaded."
LOST = "The engine's process went away."
SILENT = "The engine does not answer."


class RemoteEngine:
    """The engine as a media process knows it.

    The tick is the engine's: its deadlines are reckoned from the origin that it publishes of each
    of its banks, on the machine's one monotonic clock, and every live session's frame is in shared
    memory just before that of its bank.
    An engine that goes away ends its sessions with a reason; once one listens again, it is used.
    """

    def __init__(self, path: Path, memory: FrameMemory, clock: Clock) -> None:
        self._path = path
        self._memory = memory
        self._clock = clock
        self._wire: Wire | None = None
        self._info: StepperInfo | None = None
        self._status: EngineStatus | None = None
        self._status_s = 0.0
        self._ticks = [TickClock(clock)]
        """Each bank's."""
        self._leads = [Lead()]
        self._placing = False
        self._keys = itertools.count()
        self._opening: dict[int, asyncio.Future[None]] = {}
        self._sessions: dict[int, RemoteSession] = {}
        self._connected = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Connect, however long the engine takes to listen, and begin to hand frames over."""
        self._tasks.append(asyncio.create_task(self._stay_connected(), name="engine link"))
        await self._connected.wait()

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._lost()

    @property
    def info(self) -> StepperInfo:
        if self._info is None:
            raise EngineFailed(LOADING, retry_after_s=5)
        return self._info

    def status(self) -> EngineStatus:
        if self._status is None or self._wire is None:
            return EngineStatus(False, self._absence, 0, 0, 0, 0, 0.0, 0.0)
        if self._clock.now() - self._status_s > STALE_S:
            return replace(self._status, ready=False, detail=SILENT)
        return self._status

    def _take_status(self, message: Message) -> None:
        self._status = unpack_status(message["status"])
        self._status_s = self._clock.now()

    @property
    def _absence(self) -> str:
        return LOADING if self._info is None else LOST

    def next_tick_s(self) -> float:
        return min(ticks.next_s for ticks in self._ticks)

    def check(self, spec: SessionSpec) -> None:
        """What can be told here; the rest is refused by `open`."""
        if spec.voice is not None and spec.voice not in self.info.voices:
            known = ", ".join(self.info.voices) or "none to choose from"
            raise UnknownVoice(f"There is no voice {spec.voice[:64]!r}; there are: {known}.")
        if spec.persona and not self.info.takes_persona:
            raise InvalidPersona(f"The {self.info.agent} agent takes no persona; leave it out.")

    async def open(
        self, spec: SessionSpec, source: FrameSource, sink: FrameSink, call_id: str
    ) -> EngineSession:
        wire = self._wire
        if wire is None:
            raise EngineFailed(self._absence, retry_after_s=5)
        key = next(self._keys)
        answer = self._opening[key] = asyncio.get_running_loop().create_future()
        session = RemoteSession(
            key, source, sink, self._send_start, self._send_close, self._send_reopen
        )
        self._sessions[key] = session
        wire.send("open", session=key, spec=pack_spec(spec), call_id=call_id)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await answer
        except BaseException as error:
            self._sessions.pop(key, None)
            wire.send("close", session=key)
            if isinstance(error, TimeoutError):
                raise EngineFailed(SILENT, retry_after_s=5) from error
            raise
        finally:
            del self._opening[key]
        return session

    async def _send_start(self, session: RemoteSession) -> None:
        """Where calls choose their bank, once it is known when this one's packets come."""
        packets = None
        with self._contained(session):
            if self._placing and (times := await first_packets(session.source, self._clock)):
                # Frames are read so much before their tick.
                packets = times.due_s + self._leads[session.bank].seconds, times.every_s
            if self._wire is not None:
                self._wire.send("start", session=session.key, packets=packets)

    def _send_reopen(self, session: RemoteSession, spec: SessionSpec) -> None:
        if self._wire is not None:
            self._wire.send(
                "reopen", session=session.key, spec=pack_spec(spec), opening=session.opening
            )

    def _send_close(self, session: RemoteSession) -> None:
        self._sessions.pop(session.key, None)
        if self._wire is not None:
            self._wire.send("close", session=session.key)

    async def _stay_connected(self) -> None:
        while True:
            try:
                streams = await asyncio.open_unix_connection(str(self._path), limit=MAX_LINE_BYTES)
            except OSError:
                await asyncio.sleep(CONNECT_EVERY_S)
                continue
            wire = Wire(*streams)
            feeds: list[asyncio.Task[None]] = []
            try:
                while (message := await wire.receive()) is not None:
                    if message["type"] == "welcome":
                        self._welcome(wire, message)
                        feeds = [
                            asyncio.create_task(self._feed(bank), name=f"frames to bank {bank}")
                            for bank in range(len(self._ticks))
                        ]
                    else:
                        self._hear(message)
            except Exception:
                log.exception("the engine could not be understood")
            finally:
                for feed in feeds:
                    feed.cancel()
                wire.close()
                self._lost()

    def _welcome(self, wire: Wire, message: Message) -> None:
        self._info = unpack_info(message["info"])
        self._take_status(message)
        self._ticks = [TickClock(self._clock, origin_s) for origin_s in message["origins_s"]]
        self._placing = message["placing"]
        self._leads += [Lead() for _ in self._ticks[len(self._leads) :]]
        for ticks, lead in zip(self._ticks, self._leads, strict=False):
            ticks.lead_s = lead.seconds
        self._wire = wire
        self._connected.set()

    def _lost(self) -> None:
        self._wire = None
        for answer in self._opening.values():
            if not answer.done():
                answer.set_exception(EngineFailed(LOST, retry_after_s=5))
        for session in list(self._sessions.values()):
            self._sessions.pop(session.key, None)
            _fail(session, LOST)

    def _hear(self, message: Message) -> None:
        match message["type"]:
            case "status":
                self._take_status(message)
            case "frames":
                for key, tick, index, text, heard in message["frames"]:
                    self._deliver(key, tick, AgentFrame(index, _NOTHING, text), heard)
            case "opened":
                if opened := self._sessions.get(message["session"]):
                    opened.bank = message["bank"]
                self._answer(message["session"]).set_result(None)
            case "refused":
                error = unpack_error(message["error"])
                self._answer(message["session"]).set_exception(error)
            case _ if session := self._sessions.get(message["session"]):
                with self._contained(session):
                    self._tell(session, message)

    def _tell(self, session: RemoteSession, message: Message) -> None:
        match message["type"]:
            case "ready":
                session.become_ready(message["opening"])
            case "live":
                session.go_live(message["slot"], message["bank"], message["lease"])
            case "skipped":
                session.sink.on_skipped(message["frames"])
            case "notice":
                session.sink.tell(message["code"], message["message"], **message["fields"])
            case "failed":
                del self._sessions[session.key]
                _fail(session, message["reason"])

    def _answer(self, key: int) -> asyncio.Future[None]:
        answer = self._opening.get(key)
        if answer is None or answer.done():
            # Nobody waits any more; what becomes of it is of no interest.
            return asyncio.get_running_loop().create_future()
        return answer

    def _deliver(self, key: int, tick: int, frame: AgentFrame, heard: bool) -> None:
        session = self._sessions.get(key)
        if session is None:
            return
        pcm = self._memory.agent(session.slot, tick)
        with self._contained(session):
            if pcm is None or not heard:
                # This process was scheduled too late to read the agent's frame, or to hand over
                # the caller's.
                session.sink.on_skipped(1)
            if pcm is not None:
                session.sink.on_frame(replace(frame, pcm=pcm))

    async def _feed(self, bank: int) -> None:
        """Hand the frame of every live session of a bank over just before each of its ticks."""
        ticks, lead = self._ticks[bank], self._leads[bank]
        while True:
            tick = await ticks.wait()
            live = [s for s in self._sessions.values() if s.live and s.bank == bank]
            for session in live:
                self._hand_over(session, tick)
            if live:
                lead.observe(ticks.deadline_s(tick.index) - self._clock.now())
                ticks.lead_s = lead.seconds

    def _hand_over(self, session: RemoteSession, tick: Tick) -> None:
        with self._contained(session):
            if session.fed:
                for _ in range(tick.skipped):
                    session.source.skip()
            session.fed = True
            frame = session.source.reserve()
            self._memory.put_caller(session.slot, tick.index, session.lease, frame)
            session.source.commit()

    @contextlib.contextmanager
    def _contained(self, session: RemoteSession) -> Iterator[None]:
        """What goes wrong in one call ends that call, and no other."""
        try:
            yield
        except Exception:
            log.exception("a call failed; only it ends")
            session.close()
            _fail(session, CALL_FAILED)


def _fail(session: RemoteSession, reason: str) -> None:
    """End a session; a call that cannot even be told so must not cut off the others."""
    try:
        session.fail(reason)
    except Exception:
        log.exception("a call could not be told that its session ended")
