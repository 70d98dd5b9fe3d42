"""The engine's side of the socket: sessions of media processes on a local engine."""

from __future__ import annotations

import asyncio
import itertools
import logging
from pathlib import Path
from typing import Any

import numpy as np

from rtc_agent.engine.client import AgentFrame
from rtc_agent.engine.placed import PlacedSession
from rtc_agent.engine.placing import PacketTimes
from rtc_agent.engine.remote.memory import FrameMemory
from rtc_agent.engine.remote.wire import (
    MAX_LINE_BYTES,
    Message,
    Wire,
    pack_error,
    pack_info,
    pack_status,
    unpack_spec,
)
from rtc_agent.engine.staggered import BankSession, Engine
from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm, SessionSpec
from rtc_agent.errors import RtcAgentError

log = logging.getLogger(__name__)

STATUS_EVERY_S = 0.5
_SILENCE: Pcm = np.zeros(FRAME_SAMPLES, np.float32)


class EngineHost:
    """Serves an engine to media processes. A process that goes takes its own sessions with it."""

    def __init__(self, engine: Engine, memory: FrameMemory) -> None:
        self.engine = engine
        self.memory = memory
        self.leases = itertools.count(1)
        """Numbers of sessions' times in a slot."""
        self._clients: set[_Client] = set()
        self._server: asyncio.Server | None = None
        self._status_task: asyncio.Task[None] | None = None

    async def start(self, path: Path) -> None:
        """Listen on a local socket of that path."""
        self._server = await asyncio.start_unix_server(
            self._serve, path=str(path), limit=MAX_LINE_BYTES
        )
        self._status_task = asyncio.create_task(self._tell_status())

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._status_task is not None:
            self._status_task.cancel()
        for client in list(self._clients):
            client.wire.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(self, Wire(reader, writer))
        self._clients.add(client)
        try:
            await client.run()
        except Exception:
            log.exception("a media process could not be understood; its calls end")
        finally:
            self._clients.discard(client)
            client.close()

    async def _tell_status(self) -> None:
        while True:
            status = pack_status(self.engine.status())
            for client in self._clients:
                client.wire.send("status", status=status)
            await asyncio.sleep(STATUS_EVERY_S)


class _Client:
    """One media process."""

    def __init__(self, host: EngineHost, wire: Wire) -> None:
        self.host = host
        self.wire = wire
        self.sessions: dict[int, _HostedSession] = {}
        self._outputs: list[tuple[int, int, int, str, bool]] = []

    async def run(self) -> None:
        engine = self.host.engine
        self.wire.send(
            "welcome",
            info=pack_info(engine.info),
            status=pack_status(engine.status()),
            slots=engine.status().slots,
            origins_s=[bank.origin_s for bank in engine.banks],
            placing=engine.placing,
        )
        while (message := await self.wire.receive()) is not None:
            await self._obey(message)

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()
        self.wire.close()

    async def _obey(self, message: Message) -> None:
        key = int(message["session"])
        match message["type"]:
            case "open":
                await self._open(key, message)
            case "start" if key in self.sessions:
                packets = message["packets"]
                self.sessions[key].start(None if packets is None else PacketTimes(*packets))
            case "reopen" if key in self.sessions:
                self.sessions[key].reopen(unpack_spec(message["spec"]), message["opening"])
            case "close" if key in self.sessions:
                self.sessions.pop(key).close()

    async def _open(self, key: int, message: Message) -> None:
        hosted = _HostedSession(self, key)
        try:
            session = await self.host.engine.open(
                unpack_spec(message["spec"]), hosted, hosted, message["call_id"]
            )
        except RtcAgentError as error:
            self.wire.send("refused", session=key, error=pack_error(error))
            return
        hosted.opened(session)
        self.sessions[key] = hosted
        self.wire.send("opened", session=key, bank=session.bank)

    def output(self, key: int, frame: AgentFrame, tick: int, heard: bool) -> None:
        """Collect a tick's frames; they are told of in one message."""
        if not self._outputs:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outputs.append((key, tick, frame.index, frame.text, heard))

    def _flush(self) -> None:
        self.wire.send("frames", frames=self._outputs)
        self._outputs = []


class _HostedSession:
    """A `FrameSource` and a `FrameSink` whose other half is in the media process."""

    def __init__(self, client: _Client, key: int) -> None:
        self._client = client
        self._key = key
        self._session: BankSession | None = None
        self._bank = client.host.engine.banks[0]
        self.slot = 0
        """In the shared memory, which has those of all banks; its own once it is live."""
        self._lease = 0
        self._opening = 0
        """As `RemoteSession.opening`."""
        self._unheard = 0
        """Frames that were not there in time, of those whose answer is still to come."""
        self._missed = False
        """Whether the last one is among them."""
        self._fed = False
        """Whether there was any: a session may go live just before a tick."""

    def opened(self, session: BankSession) -> None:
        self._session = session
        if isinstance(session, PlacedSession):
            session.on_placed = self._went_live

    def start(self, packets: PacketTimes | None) -> None:
        session = self._session
        if isinstance(session, PlacedSession):
            session.start_at(packets)
        elif session is not None:
            session.start()
            self._went_live()

    def _went_live(self) -> None:
        session, host = self._session, self._client.host
        if session is None or not session.ready:
            return
        self._bank = host.engine.banks[session.bank]
        self.slot = self._bank.first_slot + session.slot
        self._lease = next(host.leases)
        host.memory.clear(self.slot)
        self._client.wire.send(
            "live",
            session=self._key,
            slot=self.slot,
            bank=self._bank.bank,
            lease=self._lease,
        )

    def reopen(self, spec: SessionSpec, opening: int) -> None:
        if self._session is not None:
            self._opening = opening
            self._unheard = 0
            self._fed = False
            self._session.reopen(spec)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def reserve(self) -> Pcm:
        frame = self._client.host.memory.caller(self.slot, self._bank.tick_index, self._lease)
        self._fed |= frame is not None
        self._missed = self._fed and frame is None
        self._unheard += self._missed
        return _SILENCE if frame is None else frame

    def commit(self) -> None:
        """The media process commits when it hands a frame over."""

    def rollback(self) -> None:
        """The same tick reads the same entry again."""
        self._unheard -= self._missed

    def skip(self) -> None:
        """A skipped tick's frame is simply never read."""

    def on_ready(self) -> None:
        self._client.wire.send("ready", session=self._key, opening=self._opening)

    def on_frame(self, frame: AgentFrame) -> None:
        tick = self._bank.delivered_tick
        self._client.host.memory.put_agent(self.slot, tick, frame.pcm)
        self._client.output(self._key, frame, tick, not self._unheard)
        self._unheard = max(0, self._unheard - 1)

    def on_skipped(self, frames: int) -> None:
        self._client.wire.send("skipped", session=self._key, frames=frames)

    def tell(self, code: str, message: str, **fields: Any) -> None:
        self._client.wire.send(
            "notice", session=self._key, code=code, message=message, fields=fields
        )

    def on_failed(self, reason: str) -> None:
        self._client.sessions.pop(self._key, None)
        self._client.wire.send("failed", session=self._key, reason=reason)
