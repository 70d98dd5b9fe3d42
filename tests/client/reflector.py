"""A small server that sends each caller's packets straight back, for tests of the callers."""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fractions import Fraction

import av
from aiohttp import web
from aiohttp.test_utils import TestServer
from aiortc import MediaStreamTrack, RTCDataChannel, RTCPeerConnection, RTCSessionDescription

from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media.ice import IceSettings

LOOPBACK = IceSettings(hosts=("127.0.0.1",))


class _Mirror(MediaStreamTrack):
    kind = "audio"

    def __init__(self, keep: Callable[[int], bool]) -> None:
        super().__init__()
        self._packets: asyncio.Queue[av.Packet] = asyncio.Queue()
        self._keep = keep
        self._first: int | None = None
        self._count = 0

    def take(self, packet: shim.RtpPacket) -> None:
        if self._first is None:
            self._first = packet.timestamp
        self._count += 1
        if not self._keep(self._count):
            return
        mirrored = av.Packet(packet.payload)
        mirrored.pts = (packet.timestamp - self._first) % (1 << 32)
        mirrored.time_base = Fraction(1, 8_000 if packet.payload_type == 0 else 48_000)
        self._packets.put_nowait(mirrored)

    async def recv(self) -> av.Packet:
        return await self._packets.get()


@dataclass
class Reflector:
    """What the server does; set before the call."""

    ready_after_s: float = 0.0
    say: list[dict[str, object]] = field(default_factory=list)
    """Sent right after `ready`."""
    say_during: list[dict[str, object]] = field(default_factory=list)
    """Sent a second after that."""
    refuse: Callable[[], web.Response] | None = None
    answer: dict[str, object] | str | None = None
    """Sent in place of a real answer, a text as it is."""
    keep: Callable[[int], bool] = lambda count: True
    """Which packets go back, by their number from 1."""
    end_after_s: float | None = None
    mute_after_s: float | None = None
    """Stop sending anything, as a server that hangs would."""

    offers: list[dict[str, object]] = field(default_factory=list)
    received: list[str] = field(default_factory=list)
    _pcs: list[RTCPeerConnection] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def offer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.offers.append(body)
        if self.refuse is not None:
            return self.refuse()
        if isinstance(self.answer, str):
            return web.Response(text=self.answer)
        if self.answer is not None:
            return web.json_response(self.answer)
        pc = shim.new_peer_connection(LOOPBACK)
        self._pcs.append(pc)
        mirror = _Mirror(self.keep)
        pc.on("datachannel", self._on_channel)
        pc.addTrack(mirror)
        await pc.setRemoteDescription(RTCSessionDescription(body["sdp"], body["type"]))
        shim.tap_audio(pc.getReceivers()[0], mirror.take)
        shim.restrict_hosts(pc, LOOPBACK.hosts)
        await pc.setLocalDescription(await pc.createAnswer())
        return web.json_response(
            {"sdp": pc.localDescription.sdp, "type": "answer", "pc_id": f"pc-{len(self._pcs)}"}
        )

    def _on_channel(self, channel: RTCDataChannel) -> None:
        channel.on("message", functools.partial(self._on_message, channel))
        task = asyncio.ensure_future(self._talk(channel))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_message(self, channel: RTCDataChannel, message: str) -> None:
        self.received.append(message)
        body = json.loads(message)
        if body["type"] == "ping":
            channel.send(json.dumps({"type": "pong", "id": body["id"]}))

    async def _talk(self, channel: RTCDataChannel) -> None:
        await asyncio.sleep(self.ready_after_s)
        messages = [{"type": "ready", "seq": 0, "frame": 0, "t_ms": 0, "call_id": "c1"}, *self.say]
        for message in messages:
            channel.send(json.dumps(message))
        if self.say_during:
            await asyncio.sleep(1)
        for message in self.say_during:
            channel.send(json.dumps(message))
        if self.end_after_s is not None:
            await asyncio.sleep(self.end_after_s)
            channel.send(json.dumps({"type": "ended", "reason": "call_limit", "message": "Over."}))
        if self.mute_after_s is not None:
            await asyncio.sleep(self.mute_after_s)
            for pc in self._pcs:
                for sender in pc.getSenders():
                    await sender.stop()

    async def aclose(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for pc in self._pcs:
            await shim.close(pc, 3)


@asynccontextmanager
async def serving(reflector: Reflector, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Run it on a free port of this machine; gives its URL."""
    app = web.Application()
    app.router.add_post("/api/offer", reflector.offer)
    server = TestServer(app)
    await server.start_server(ssl=tls)
    try:
        yield str(server.make_url("")).rstrip("/")
    finally:
        await reflector.aclose()
        await server.close()
