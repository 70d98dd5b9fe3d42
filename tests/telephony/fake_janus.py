"""A gateway without telephony: its protocol over a real WebSocket, and a scripted SIP plugin."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from rtc_agent.protocol import janus
from rtc_agent.telephony.janus_session import Gateway

Body = dict[str, Any]
Answer = Callable[[int, Body, dict[str, Any] | None], dict[str, Any] | None]
"""(handle, body, jsep) → the `result` of the event that answers; None leaves it unanswered."""


@dataclass
class FakeJanus:
    """One gateway. Tests read what it was asked and make it say things."""

    keeps_sessions: bool = True
    """Whether a session outlives its socket."""
    secret: str | None = None
    answer: Answer | None = None
    sessions: set[int] = field(default_factory=set)
    handles: dict[int, int] = field(default_factory=dict)
    """Handle → its session."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    mute: bool = False
    """Take requests and say nothing."""
    port: int = 0
    _ids: Any = field(default_factory=lambda: itertools.count(1000))
    _socket: web.WebSocketResponse | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def gateway(self) -> Gateway:
        return Gateway(f"ws://127.0.0.1:{self.port}/", self.secret, answer_s=2.0)

    def bodies(self, handle: int | None = None) -> list[Body]:
        """Plugin requests so far."""
        return [
            r["body"]
            for r in self.requests
            if r["janus"] == "message" and handle in (None, r["handle_id"])
        ]

    async def wait_for(self, check: Callable[[], bool], timeout_s: float = 5.0) -> None:
        """Return once `check` holds; it is tried after every request."""
        async with asyncio.timeout(timeout_s):
            while not check():
                self._arrived.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await self._arrived.wait()

    async def say(self, **message: Any) -> None:
        assert self._socket is not None
        await self._socket.send_str(json.dumps(message))

    async def sip(
        self,
        handle: int,
        event: str,
        call_id: str | None = None,
        jsep: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """An event of the SIP plugin that nobody asked for."""
        data = {"sip": "event", "result": {"event": event, **fields}}
        if call_id is not None:
            data["call_id"] = call_id
        await self._event(handle, None, data, jsep)

    async def drop(self, forget: bool = False) -> None:
        """Lose the connection; with `forget`, as a gateway that was restarted."""
        assert self._socket is not None
        if forget:
            self.sessions.clear()
            self.handles.clear()
        await self._socket.close()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=(janus.SUBPROTOCOL,))
        await socket.prepare(request)
        self._socket = socket
        async for frame in socket:
            if frame.type is WSMsgType.TEXT and not self.mute:
                await self._take(json.loads(frame.data))
        if not self.keeps_sessions:
            self.sessions.clear()
            self.handles.clear()
        return socket

    async def _take(self, request: dict[str, Any]) -> None:
        self.requests.append(request)
        base = {"transaction": request["transaction"]}
        session = request.get("session_id")
        if self.secret is not None and request.get("apisecret") != self.secret:
            await self._refuse(request, 403, "Unauthorized request")
        elif request["janus"] == "create":
            new = next(self._ids)
            self.sessions.add(new)
            await self.say(janus="success", data={"id": new}, **base)
        elif session not in self.sessions:
            await self._refuse(request, 458, f"No such session {session}")
        elif request["janus"] == "attach":
            new = next(self._ids)
            self.handles[new] = session
            await self.say(janus="success", session_id=session, data={"id": new}, **base)
        elif request["janus"] == "keepalive":
            await self.say(janus="ack", session_id=session, **base)
        elif request["janus"] == "message":
            await self.say(janus="ack", session_id=session, **base)
            await self._answer(request)
        else:
            if request["janus"] == "destroy":
                self.sessions.discard(session)
            await self.say(janus="success", session_id=session, **base)
        self._arrived.set()

    async def _answer(self, request: dict[str, Any]) -> None:
        if self.answer is None:
            return
        handle = request["handle_id"]
        result = self.answer(handle, request["body"], request.get("jsep"))
        if result is None:
            return
        data: dict[str, Any] = {"sip": "event"}
        data.update(result if "error" in result else {"result": result})
        await self._event(handle, request["transaction"], data, None)

    async def _event(
        self,
        handle: int,
        transaction: str | None,
        data: dict[str, Any],
        jsep: dict[str, Any] | None,
    ) -> None:
        message: dict[str, Any] = {
            "janus": "event",
            "session_id": self.handles[handle],
            "sender": handle,
            "plugindata": {"plugin": "janus.plugin.sip", "data": data},
        }
        if transaction is not None:
            message["transaction"] = transaction
        if jsep is not None:
            message["jsep"] = jsep
        await self.say(**message)

    async def _refuse(self, request: dict[str, Any], code: int, reason: str) -> None:
        error = {"code": code, "reason": reason}
        await self.say(janus="error", transaction=request["transaction"], error=error)


@contextlib.asynccontextmanager
async def fake_janus(port: int = 0, **fields: Any) -> AsyncIterator[FakeJanus]:
    fake = FakeJanus(**fields)
    app = web.Application()
    app.router.add_get("/", fake.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    fake.port = runner.addresses[0][1]
    try:
        yield fake
    finally:
        await runner.cleanup()
