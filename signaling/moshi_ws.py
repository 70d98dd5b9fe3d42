"""`WS /api/chat`: the Moshi and PersonaPlex servers' own address and parameters."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Annotated, Any

from aiohttp import WSCloseCode, WSMsgType, web
from pydantic import BaseModel, Field, ValidationError

from rtc_agent.call.call import Call
from rtc_agent.call.registry import Connect
from rtc_agent.call.transport import Transport, TransportEvents
from rtc_agent.engine.stepper import SamplingSpec, SessionSpec
from rtc_agent.errors import CallConflict, InvalidRequest
from rtc_agent.protocol.moshi import LABEL, MoshiDialect
from signaling.bodies import explain
from signaling.parts import PARTS, SocketTransport
from signaling.scopes import SESSION_ID

log = logging.getLogger(__name__)

HEARTBEAT_S = 5.0
"""A peer that does not answer a ping within half of this is gone."""
MAX_MESSAGE_BYTES = 256 * 1024
MAX_WAITING = 250
"""Messages for a peer that does not read: 10 s of sound, then what is newer is dropped."""

CALLS = web.AppKey("Moshi calls", set[str])
"""Session ids of calls that were begun here. Those that are over are dropped as new ones come."""


class ChatQuery(BaseModel):
    """The parameters of the existing servers; those that mean nothing here are let go."""

    voice_prompt: Annotated[str, Field(max_length=200)] | None = None
    """A file name of the existing servers: `NATF2.pt` is the voice NATF2."""
    text_prompt: Annotated[str, Field(max_length=100_000)] | None = None
    text_temperature: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)] | None = None
    text_topk: Annotated[int, Field(ge=0, le=100_000)] | None = None
    audio_temperature: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)] | None = None
    audio_topk: Annotated[int, Field(ge=0, le=100_000)] | None = None
    seed: int | None = None
    text_seed: int | None = None
    audio_seed: int | None = None
    resumable: bool = False
    """Not of the existing servers: the call outlives its socket. Its id follows the handshake."""
    session_id: Annotated[str, Field(max_length=200)] | None = None
    """Not of the existing servers: the call to go on with; everything else is as it was."""

    def spec(self) -> SessionSpec:
        chosen = {
            "text_temperature": self.text_temperature,
            "text_top_k": self.text_topk,
            "audio_temperature": self.audio_temperature,
            "audio_top_k": self.audio_topk,
            "seed": self._seed(),
        }
        given: dict[str, Any] = {key: value for key, value in chosen.items() if value is not None}
        voice = (self.voice_prompt or "").removesuffix(".pt")
        return SessionSpec(
            voice=voice or None, persona=self.text_prompt, sampling=SamplingSpec(**given)
        )

    def _seed(self) -> int | None:
        """Below zero asks for a random one, as with the existing servers."""
        given = next((s for s in (self.seed, self.text_seed, self.audio_seed) if s is not None), -1)
        return given % 2**63 if given >= 0 else None


class Socket:
    """What is sent over one WebSocket, in order, by one task."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_WAITING + 1)

    def post(self, message: bytes) -> bool:
        if self._waiting.qsize() >= MAX_WAITING:
            return False
        self._waiting.put_nowait(message)
        return True

    def close(self) -> None:
        """End after what waits has been sent."""
        with contextlib.suppress(asyncio.QueueFull):
            self._waiting.put_nowait(None)

    async def run(self, ws: web.WebSocketResponse) -> None:
        with contextlib.suppress(ConnectionError):
            while (message := await self._waiting.get()) is not None:
                await ws.send_bytes(message)
        await ws.close()


async def chat(request: web.Request) -> web.StreamResponse:
    """One call over one WebSocket. What stands in the way is an HTTP answer, not a silence."""
    query = _read_query(request)
    ws = web.WebSocketResponse(
        heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE_BYTES, compress=False
    )
    if not ws.can_prepare(request).ok:
        raise InvalidRequest("This is a WebSocket address; connect to it as one.")
    parts = request.app[PARTS]
    make_transport = parts.socket_transport
    assert make_transport is not None, "the route is there only if this is"
    socket = Socket()
    made: list[SocketTransport] = []

    async def connect(events: TransportEvents) -> tuple[Transport, str]:
        made.append(make_transport(events, socket.post, socket.close))
        return made[0], ""

    if query.session_id is None:
        await _begin(request, query, connect)
    elif query.session_id in request.app[CALLS]:
        await parts.registry.reconnect(query.session_id, connect)
    else:
        parts.registry.get(query.session_id)
        raise CallConflict("This call is not one of this address.")
    transport = made[0]
    try:
        await ws.prepare(request)
    except BaseException:
        transport.lost("connection_failed")
        raise
    sender = asyncio.create_task(socket.run(ws), name="moshi sender")
    try:
        transport.open()
        reason = await _receive(ws, transport)
        transport.lost(reason)
    finally:
        transport.lost("connection_failed")
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
    return ws


async def _begin(request: web.Request, query: ChatQuery, connect: Connect) -> None:
    registry, calls = request.app[PARTS].registry, request.app[CALLS]
    begun: list[Call] = []

    def metadata() -> dict[str, Any]:
        [call] = begun
        grace_s = registry.limits.reconnect_s
        return {SESSION_ID: call.ids.session, "reconnect_grace_s": grace_s}

    call, _ = await registry.place(
        query.spec(),
        connect,
        dialects={LABEL: lambda: MoshiDialect(metadata if query.resumable else None)},
        may_return=query.resumable,
    )
    begun.append(call)
    calls &= {each.ids.session for each in registry}
    calls.add(call.ids.session)


async def _receive(ws: web.WebSocketResponse, transport: SocketTransport) -> str:
    """Until the connection ends; how it did."""
    while True:
        message = await ws.receive()
        match message.type:
            case WSMsgType.BINARY:
                try:
                    transport.receive(message.data)
                except InvalidRequest as error:
                    log.info("a Moshi client's sound cannot be read: %s", error.message)
                    reason = error.message.encode()
                    await ws.close(code=WSCloseCode.UNSUPPORTED_DATA, message=reason)
                    return "peer_closed"
            case WSMsgType.CLOSE:
                # A front of ours says so that its client's connection was lost.
                lost = message.data == WSCloseCode.BAD_GATEWAY
                return "connection_failed" if lost else "peer_closed"
            case WSMsgType.CLOSING | WSMsgType.CLOSED | WSMsgType.ERROR:
                return "connection_failed"


def _read_query(request: web.Request) -> ChatQuery:
    # Web clients send what the person left empty as an empty string.
    known = {
        name: value
        for name, value in request.query.items()
        if value and name in ChatQuery.model_fields
    }
    try:
        return ChatQuery.model_validate(known)
    except ValidationError as error:
        raise InvalidRequest(f"The query does not fit: {explain(error)}.") from error
