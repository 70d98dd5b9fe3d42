"""One headless WebRTC call: offers, sends packets on time, and keeps everything that comes back."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Container
from types import TracebackType
from typing import Any, Self

from aiortc import RTCPeerConnection, RTCRtpReceiver, RTCSessionDescription
from aiortc.rtcrtpparameters import RTCRtpCodecCapability

from rtc_agent.client.impair import Impairment
from rtc_agent.client.messages import ReceivedMessage, parse
from rtc_agent.client.network import Downlink, Uplink
from rtc_agent.client.offer import Signaling
from rtc_agent.client.paced_track import PacedTrack, Quiet
from rtc_agent.client.packets import PacketLog
from rtc_agent.client.recording import Recording
from rtc_agent.client.sources import PacketSource, Silence
from rtc_agent.clock import Clock, MonotonicClock
from rtc_agent.engine.stepper import SAMPLE_RATE
from rtc_agent.errors import CallFailed, CallRefused, ConfigError
from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media import rtp_path
from rtc_agent.media.codecs import CODECS, CodecInfo, encoder_for
from rtc_agent.media.ice import IceSettings
from rtc_agent.media.relay_outcomes import relay_faults
from rtc_agent.protocol import native

log = logging.getLogger(__name__)

NO_MEDIA_S = 5.0
"""A call from which nothing has come for so long counts as broken."""
NO_MEDIA = "no_media"
"""How such a call ended."""
_LOOK_S = 0.5
"""How often that is looked at."""
_CLOSE_S = 3.0


class CallClient:
    """A caller. Use as an async context manager: leaving it hangs up and closes.

    After `connect`, `log` fills with the agent's packets and `messages` with its words; `play`
    says something; `wait_until` passes time and notices when the call ends.
    """

    def __init__(
        self,
        signaling: Signaling,
        *,
        codec: str = "opus",
        ice: IceSettings | None = None,
        quiet: Quiet | None = None,
        impairment: Impairment | None = None,
        clock: Clock | None = None,
        ignored: Container[str] = (),
        phase_s: float | None = None,
    ) -> None:
        """`codec` (opus, PCMU, PCMA, G722) is the only one offered. `quiet` is sent while nothing
        plays; by default silence, encoded as it goes. An `impairment` is laid over the real
        network, and its drift over the sender's clock. Messages of `ignored` types are not kept.
        `phase_s` is that of `PacedTrack`."""
        self.codec: CodecInfo = CODECS[codec.lower()]
        self.encoder = encoder_for(self.codec)
        self.clock = clock or MonotonicClock()
        self.log = PacketLog()
        self.messages: list[ReceivedMessage] = []
        self.connect_ms: float | None = None
        """Offer to media path, set by `connect`."""
        self.ready_ms: float | None = None
        """Offer to the server's `ready`."""
        self.call_id: str | None = None
        self.ended: str | None = None
        """Why the call is over: the server's reason, `connection_failed`, `no_media`, or `hangup`
        once this side has hung up."""
        self.track = PacedTrack(
            quiet or Silence(self.encoder),
            self.clock,
            self.codec,
            drift_ppm=impairment.drift_ppm if impairment else 0.0,
            phase_s=phase_s,
        )
        self._signaling = signaling
        self._ice = ice or IceSettings()
        self._ignored = ignored
        self.uplink = Uplink(impairment, self.clock) if impairment and impairment.on("up") else None
        self._downlink = Downlink(impairment) if impairment and impairment.on("down") else None
        self._started_s = 0.0
        self._over = asyncio.Event()
        self._connected = asyncio.Event()
        self._ready = asyncio.Event()
        self._pc: RTCPeerConnection = shim.new_peer_connection(self._ice)
        self._channel = self._pc.createDataChannel(native.LABEL, ordered=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def connect(self, timeout_s: float = 15.0) -> None:
        """Offer a call and wait until media can flow.

        Raises:
            ServerUnreachable, CallRefused: see `Signaling`.
            CallFailed: no network path within `timeout_s`.
        """
        pc = self._pc
        self._started_s = self.clock.now()
        pc.on("connectionstatechange", self._on_state)
        self._channel.on("message", self._on_message)
        transceiver = pc.addTransceiver(self.track, direction="sendrecv")
        transceiver.setCodecPreferences(_only(self.codec))
        rtp_path.send_directly(transceiver.sender)
        shim.restrict_hosts(pc, self._ice.hosts)
        with relay_faults() as faults:
            await pc.setLocalDescription(await pc.createOffer())
        if "a=candidate" not in pc.localDescription.sdp:
            if self._ice.relay_only:
                raise CallFailed(" ".join(["There is no network path by TURN.", *faults]))
            hosts = ", ".join(self._ice.hosts)
            raise CallFailed(
                f"None of the addresses to offer is this machine's: {hosts}."
                if hosts
                else "This machine has no network address to offer. For a server on this machine, "
                "give --ice-host 127.0.0.1 here and there."
            )
        answer = await self._signaling.answer(pc.localDescription.sdp)
        try:
            await pc.setRemoteDescription(RTCSessionDescription(answer.sdp, "answer"))
        except Exception as error:  # aiortc raises many kinds for an answer it cannot use
            raise CallRefused(f"The server's answer cannot be used: {error}.") from error
        if not shim.tap_audio(transceiver.receiver, self._on_packet):
            raise ConfigError("This version of aiortc does not let a caller see its packets.")
        rtp_path.receive_directly(transceiver.receiver, self._on_packet)
        if self.uplink and not shim.divert_media(transceiver.sender, self.uplink.carry):
            raise ConfigError("This version of aiortc does not let packets be impaired.")
        left_s = timeout_s - (self.clock.now() - self._started_s)
        if not await self._happens(self._connected, left_s):
            raise CallFailed(
                f"No connection came about within {timeout_s:g} s. "
                + (
                    "The TURN relay opened, but what it relays does not reach the server: its "
                    "address, its UDP ports and its denied-peer-ip are to be looked at."
                    if self._ice.relay_only
                    else "UDP may be blocked between here and the server; a TURN server helps."
                )
            )
        self.connect_ms = (self.clock.now() - self._started_s) * 1e3

    async def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait for the server's `ready`: from then on the agent listens.

        Raises:
            CallFailed: the call ended instead, or nothing came in time.
        """
        if not await self._happens(self._ready, timeout_s):
            raise CallFailed(f"The agent was not ready within {timeout_s:g} s.")

    def play(self, source: PacketSource) -> float:
        """Say `source` from now on; `track.finished` tells when it has been said. Returns the
        moment its first sample counts as said, in seconds on `clock`."""
        return self.track.play(source)

    async def wait_until(self, when_s: float) -> bool:
        """Wait for a moment on the clock. False, at once, when the call ends before."""
        while (left_s := when_s - self.clock.now()) > 0:
            if self._over.is_set():
                return False
            await self._listen(self._over, min(left_s, _LOOK_S))
        return not self._over.is_set()

    async def wait_said(self) -> bool:
        """Wait until all that was played is sent. False when the call ends before."""
        while not self.track.finished.is_set():
            if self._over.is_set():
                return False
            await self._listen(self.track.finished, _LOOK_S)
        return not self._over.is_set()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message on the text channel, if that is open."""
        if self._channel.readyState == "open":
            self._channel.send(json.dumps(message))

    def recording(self, origin_s: float, samples: int) -> Recording:
        """What was heard from `origin_s` on, `samples` long at 24 kHz, as far as it is in."""
        return Recording(self.log.in_order(), self.codec, origin_s, samples)

    async def aclose(self) -> None:
        """Hang up, if the call still stands, and close everything. Idempotent."""
        if self.ended is None:
            self.send({"type": "hangup"})
            # The message has to leave before the association goes.
            await asyncio.sleep(0.02)
        self._end("hangup")
        self.track.stop()
        if self.uplink:
            await self.uplink.aclose()
        await shim.close(self._pc, _CLOSE_S)

    def _on_state(self) -> None:
        match self._pc.connectionState:
            case "connected":
                self._connected.set()
            case "failed" | "closed":
                self._end("connection_failed")

    def _on_packet(self, packet: shim.RtpPacket) -> None:
        now_s = self.clock.now()
        arrivals = self._downlink.arrivals(now_s) if self._downlink else (now_s,)
        for when_s in arrivals:
            self.log.add(when_s, packet.sequence_number, packet.timestamp, packet.payload)

    def _on_message(self, text: str | bytes) -> None:
        message = parse(self.clock.now(), text)
        if message is None:
            log.warning("a message on the text channel is no JSON object")
            return
        if message.type not in self._ignored:
            self.messages.append(message)
        match message.type:
            case "ready":
                self.call_id = message.body.get("call_id")
                if self.ready_ms is None:
                    self.ready_ms = (message.arrival_s - self._started_s) * 1e3
                self._ready.set()
            case "ended":
                self._end(str(message.body.get("reason", "ended")))

    def expect_media(self, patience_s: float | None = None) -> None:
        """End the call if nothing has come from the agent for so long, by default `NO_MEDIA_S`."""
        last_s = self.log.last_arrival_s
        patience_s = NO_MEDIA_S if patience_s is None else patience_s
        if last_s is not None and self.clock.now() - last_s > patience_s:
            self._end(NO_MEDIA)

    async def _listen(self, event: asyncio.Event, timeout_s: float) -> None:
        """Wait for `event`, and end the call if nothing comes any more."""
        began_s = self.clock.now()
        await self._happens(event, timeout_s, raising=False)
        # Where the machine stood still, what was sent meanwhile is still to be read, or to be sent.
        if self.clock.now() - began_s < timeout_s + _LOOK_S:
            self.expect_media()

    def _end(self, reason: str) -> None:
        if self.ended is None:
            self.ended = reason
            self._over.set()

    async def _happens(
        self, event: asyncio.Event, timeout_s: float, *, raising: bool = True
    ) -> bool:
        """Whether `event` is set in time; raises CallFailed if the call ends first."""
        waits = [asyncio.ensure_future(e.wait()) for e in (event, self._over)]
        try:
            await asyncio.wait(
                waits, timeout=max(0.0, timeout_s), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for wait in waits:
                wait.cancel()
        if raising and self._over.is_set() and not event.is_set():
            raise CallFailed(f"The call ended before it was ready: {self._reason_words()}.")
        return event.is_set()

    def _reason_words(self) -> str:
        for message in reversed(self.messages):
            if message.type == "ended" and message.body.get("message"):
                return f"{self.ended} ({str(message.body['message']).rstrip('.')})"
        return str(self.ended)


def _only(codec: CodecInfo) -> list[RTCRtpCodecCapability]:
    """The capabilities of one codec."""
    wanted = f"audio/{codec.name}".lower()
    capabilities = RTCRtpReceiver.getCapabilities("audio")
    assert capabilities is not None
    return [c for c in capabilities.codecs if c.mimeType.lower() == wanted]


def samples_in(seconds: float) -> int:
    """Seconds as samples at 24 kHz."""
    return round(seconds * SAMPLE_RATE)
