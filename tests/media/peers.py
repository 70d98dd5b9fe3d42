"""A caller made of aiortc alone, for loopback calls to a `WebRtcPeer`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiortc import RTCDataChannel, RTCPeerConnection, RTCSessionDescription

from rtc_agent.clock import MonotonicClock
from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media.audio_receiver import AudioReceiver
from rtc_agent.media.codecs import CODECS, OPUS, CodecInfo
from rtc_agent.media.ice import IceSettings
from rtc_agent.media.peer import WebRtcPeer
from rtc_agent.media.playout import PlayoutTrack

LOOPBACK = IceSettings(hosts=("127.0.0.1",))


class Events:
    """Notes what a peer tells its call."""

    def __init__(self) -> None:
        self.log: list[tuple[str, ...]] = []
        self._changed = asyncio.Event()

    def _note(self, *what: str) -> None:
        self.log.append(what)
        self._changed.set()

    def on_connected(self) -> None:
        self._note("connected")

    def on_closed(self, reason: str) -> None:
        self._note("closed", reason)

    def on_channel(self, label: str) -> None:
        self._note("channel", label)

    def on_message(self, label: str, message: str) -> None:
        self._note("message", label, message)

    async def wait_for(self, *what: str, timeout_s: float = 10) -> None:
        async with asyncio.timeout(timeout_s):
            while what not in self.log:
                self._changed.clear()
                await self._changed.wait()


class Caller:
    """Offers audio and a `text` channel, sends what its track is given, keeps raw packets."""

    def __init__(self, codec: CodecInfo = OPUS, *, channel: str | None = "text") -> None:
        self.clock = MonotonicClock()
        self.pc: RTCPeerConnection = shim.new_peer_connection(LOOPBACK)
        self.track = PlayoutTrack(codec, self.clock)
        self.pc.addTrack(self.track)
        self.packets: list[tuple[float, int, int, bytes]] = []
        """Arrival time, sequence number, timestamp, payload."""
        self.receiver: AudioReceiver | None = None
        self.channel: RTCDataChannel | None = None
        self.messages: list[str] = []
        self._opened = asyncio.Event()
        if channel is not None:
            self.channel = self.pc.createDataChannel(channel)
            self.channel.on("message", self.messages.append)
            self.channel.on("open", self._opened.set)

    async def offer(self) -> str:
        shim.restrict_hosts(self.pc, LOOPBACK.hosts)
        await self.pc.setLocalDescription(await self.pc.createOffer())
        return str(self.pc.localDescription.sdp)

    async def accept(self, answer: str) -> None:
        await self.pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        receiver = self.pc.getReceivers()[0]
        self.receiver = AudioReceiver(
            {pt: codec for pt, codec in zip((96, 9, 0, 8), CODECS.values(), strict=True)}
        )
        assert shim.tap_audio(receiver, self._on_packet)

    def _on_packet(self, packet: shim.RtpPacket) -> None:
        now = self.clock.now()
        self.packets.append((now, packet.sequence_number, packet.timestamp, packet.payload))
        assert self.receiver is not None
        self.receiver.push(packet, now)

    async def wait_open(self) -> None:
        """Until its own channel may be sent on."""
        await asyncio.wait_for(self._opened.wait(), 10)

    async def close(self) -> None:
        await self.pc.close()


async def connect(
    codec: CodecInfo = OPUS,
    *,
    channel: str | None = "text",
    edit_offer: Callable[[str], str] | None = None,
) -> tuple[Caller, WebRtcPeer, Events]:
    """A connected call on loopback."""
    caller, events = Caller(codec, channel=channel), Events()
    offer = await caller.offer()
    if edit_offer is not None:
        offer = edit_offer(offer)
    peer, answer = await WebRtcPeer.answer(offer, events=events, ice=LOOPBACK)
    assert events.log == []
    await caller.accept(answer)
    await events.wait_for("connected")
    return caller, peer, events
