"""A server for the page whose every answer a test can choose, with a real WebRTC peer behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from aiortc import (
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.contrib.media import MediaRelay

PAGE = Path(__file__).parents[2] / "web"
CSP = "default-src 'self'; media-src 'self' blob:"
"""As strict as the real server's, for what the page does."""

INFO: dict[str, Any] = {
    "agent": "echo",
    "description": "An echo test: you hear yourself, and read for how long you spoke.",
    "notice": "",
    "capabilities": {},
    "voices": [],
    "voice_samples": [],
    "default_voice": None,
    "takes_persona": False,
    "persona_max_chars": 0,
    "slots": {"total": 4, "free": 4},
    "ice_servers": [],
    "version": "0.0.0",
}

Respond = Callable[[web.Request], Awaitable[web.StreamResponse]]


def refusal(status: int, code: str, message: str, **headers: str) -> Respond:
    """A handler that answers with the server's error shape."""

    async def respond(_: web.Request) -> web.StreamResponse:
        error = {"error": {"code": code, "message": message}}
        return web.json_response(error, status=status, headers=headers)

    return respond


class FakeServer:
    """Serves the page; echoes the caller; sends on the text channel what the test says."""

    def __init__(self) -> None:
        self.info = dict(INFO)
        self.respond: Respond = self.answer
        """Handles `POST /api/offer`."""
        self.offers: list[dict[str, Any]] = []
        self.candidates: list[dict[str, Any]] = []
        self.patches = 0
        """Requests that brought `candidates`."""
        self.hung_up: list[str] = []
        """Ids of calls that were ended by a request."""
        self.received: list[dict[str, Any]] = []
        """Messages of the page's text channel."""
        self.sample = b""
        """A WAV: what every voice that has a sample sounds like."""
        self.answers_pings = True
        self.ready = True
        """Whether `ready` is sent as soon as the channel is open."""
        self.peer: RTCPeerConnection | None = None
        self.channel: RTCDataChannel | None = None
        self.channel_open = asyncio.Event()
        self.pc_id = "fake"
        self.port = 0
        self._arrived = asyncio.Condition()
        self._notifying: set[asyncio.Task[None]] = set()
        self._seq = 0
        self._relay = MediaRelay()
        app = web.Application()
        app.router.add_get("/", self._index)
        app.router.add_get("/v1/info", self._info)
        app.router.add_get("/v1/voices/{voice}/sample", self._sample)
        app.router.add_post("/api/offer", self._offer)
        app.router.add_patch("/api/offer", self._patch)
        app.router.add_post("/v1/realtime/calls/{call_id}/hangup", self._hang_up)
        app.router.add_static("/", PAGE)
        app.on_response_prepare.append(self._headers)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def aclose(self) -> None:
        if self.peer is not None:
            await self.peer.close()
        await self._runner.cleanup()

    def send(self, type_: str, *, frame: int = 0, **fields: Any) -> None:
        """Send one message to the page."""
        assert self.channel is not None
        message = {"type": type_, "seq": self._seq, "frame": frame, "t_ms": frame * 80, **fields}
        self._seq += 1
        self.channel.send(json.dumps(message))

    async def until(self, holds: Callable[[], bool], timeout_s: float = 5) -> None:
        """Wait until something that the page does here has made this true."""
        async with asyncio.timeout(timeout_s), self._arrived:
            await self._arrived.wait_for(holds)

    async def _notify(self) -> None:
        async with self._arrived:
            self._arrived.notify_all()

    def rewind(self, messages: int) -> None:
        """Number the next message as if that many had not been sent."""
        self._seq -= messages

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Take the call and echo it; or the same call over another connection."""
        offer = await request.json()
        if self.peer is not None and offer["restart_pc"]:
            await self.peer.close()
        peer = self.peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))

        @peer.on("track")
        def on_track(track: Any) -> None:
            peer.addTrack(self._relay.subscribe(track))

        @peer.on("datachannel")
        def on_channel(channel: RTCDataChannel) -> None:
            self.channel = channel
            channel.on("message", self._on_message)
            if self.ready:
                self.send("ready", agent=self.info["agent"])
            self.channel_open.set()

        await peer.setRemoteDescription(RTCSessionDescription(offer["sdp"], "offer"))
        await peer.setLocalDescription(await peer.createAnswer())
        sdp = peer.localDescription.sdp
        return web.json_response({"sdp": sdp, "type": "answer", "pc_id": self.pc_id})

    async def answer_unreachable(self, request: web.Request) -> web.StreamResponse:
        """Take the call, and name a discard address as the only way to reach us."""
        response = await self.answer(request)
        assert isinstance(response, web.Response) and self.peer is not None
        body = json.loads(response.text or "")
        kept = [line for line in body["sdp"].splitlines() if not line.startswith("a=candidate")]
        unreachable = "a=candidate:1 1 udp 2130706431 192.0.2.77 9 typ host"
        at = next(i for i, line in enumerate(kept) if line.startswith("a=mid"))
        body["sdp"] = "\r\n".join([*kept[: at + 1], unreachable, *kept[at + 1 :], ""])
        await self.peer.close()
        return web.json_response(body)

    def _on_message(self, data: str) -> None:
        message = json.loads(data)
        self.received.append(message)
        task = asyncio.get_running_loop().create_task(self._notify())
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)
        if message["type"] == "ping" and self.answers_pings:
            self.send("pong", id=message["id"])

    async def _index(self, _: web.Request) -> web.StreamResponse:
        return web.FileResponse(PAGE / "index.html")

    async def _info(self, _: web.Request) -> web.StreamResponse:
        return web.json_response(self.info)

    async def _sample(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["voice"] not in self.info["voice_samples"]:
            return await refusal(404, "no_sample", "There is none.")(request)
        return web.Response(body=self.sample, content_type="audio/wav")

    async def _offer(self, request: web.Request) -> web.StreamResponse:
        self.offers.append(await request.json())
        return await self.respond(request)

    async def _patch(self, request: web.Request) -> web.StreamResponse:
        self.patches += 1
        self.candidates.extend((await request.json())["candidates"])
        await self._notify()
        return web.json_response({"status": "success"})

    async def _hang_up(self, request: web.Request) -> web.StreamResponse:
        self.hung_up.append(request.match_info["call_id"])
        await self._notify()
        return web.Response()

    async def _headers(self, _: web.Request, response: web.StreamResponse) -> None:
        response.headers["Content-Security-Policy"] = CSP
