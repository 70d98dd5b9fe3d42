"""One caller's WebRTC connection as a call's `Transport`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from typing import Final

from aiortc import (
    RTCDataChannel,
    RTCPeerConnection,
    RTCRtpTransceiver,
    RTCSessionDescription,
)
from aiortc.sdp import candidate_from_sdp

from rtc_agent.call.transport import IceSession, TransportEvents, TransportStats
from rtc_agent.clock import Clock, MonotonicClock
from rtc_agent.engine.stepper import Pcm
from rtc_agent.errors import (
    CallConflict,
    InvalidOffer,
    InvalidRequest,
    RtcAgentError,
    ServerFull,
    UnsupportedOffer,
)
from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media import rtp_path, turns
from rtc_agent.media.aligner import FrameAligner
from rtc_agent.media.audio_receiver import AudioReceiver
from rtc_agent.media.codecs import CODECS, CodecInfo
from rtc_agent.media.ice import IceSettings
from rtc_agent.media.ice_restart import IceRestart, allow_restarts
from rtc_agent.media.opus import DEFAULT_BITRATE
from rtc_agent.media.playout import PlayoutTrack
from rtc_agent.media.relay_outcomes import remembering_relays
from rtc_agent.protocol import sdp

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 3.0
RETRY_S = 10
_NOTHING_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
MAX_MESSAGE_BYTES = 64 * 1024
MAX_BUFFERED_BYTES = 256 * 1024
"""A channel with more than this unsent takes no further message."""
MAX_CHANNELS = 16
MAX_CANDIDATES = 64
"""Trickled candidates beyond this are ignored: each costs connectivity checks."""
LOSS_EVERY_S = 2.0
LOSS_DECAY = 0.8
EXPECTED_LOSS_PERCENT = (5, 25)
"""The least and the most loss that the encoder is told to be ready for."""
OPUS_PARAMETERS: Final = {
    "minptime": "10",
    "useinbandfec": "1",
    "stereo": "0",
    "maxaveragebitrate": str(DEFAULT_BITRATE),
}


class WebRtcPeer:
    """An answered offer. Made by `answer`; implements `rtc_agent.call.transport.Transport`."""

    def __init__(self, pc: RTCPeerConnection, events: TransportEvents, clock: Clock) -> None:
        self._pc = pc
        self._events = events
        self._clock = clock
        self._source = FrameAligner(clock)
        self._receiver: AudioReceiver | None = None
        self._track: PlayoutTrack | None = None
        self._turn: int | None = None
        self._offer: sdp.Offer | None = None
        self._ice = IceSettings()
        self._flow = sdp.Flow.CALL
        self._answered = ""
        """The answer to the offer as reduced."""
        self._channels: dict[str, RTCDataChannel] = {}
        self._candidates = 0
        self._restart: IceRestart | None = None
        self._restarting = asyncio.Lock()
        self._heard_s = clock.now()
        self._connected = False
        self._loss_task: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[bool] | None = None
        self.codec: CodecInfo | None = None
        """What the agent is sent in, once answered."""

    @classmethod
    async def answer(
        cls,
        offer_sdp: str,
        *,
        events: TransportEvents,
        ice: IceSettings | None = None,
        clock: Clock | None = None,
        flow: sdp.Flow = sdp.Flow.CALL,
    ) -> tuple[WebRtcPeer, str]:
        """Answer an offer.

        No event is delivered before this has returned.

        Returns:
            The peer, connecting, and the answer's text.

        Raises:
            InvalidOffer: it cannot be understood.
            UnsupportedOffer: it has no audio that can be talked over; the message says why.
            ServerFull: no UDP port of the range allowed is free, or no file descriptor.
            RelayUnavailable: it may go by a TURN relay alone, and none answers.
        """
        offer = sdp.read_offer(offer_sdp, flow)
        pc = shim.new_peer_connection(ice or IceSettings())
        peer = cls(pc, events, clock or MonotonicClock())
        try:
            answer = await peer._negotiate(offer, ice or IceSettings(), flow)
        except BaseException as error:
            await peer.aclose()
            if isinstance(error, OSError) and error.errno in _NOTHING_LEFT:
                logger.error("a call was refused: %s (`ulimit -n` says how many)", error.strerror)
                raise ServerFull(
                    f"The server has nothing left for another connection: {error.strerror}.",
                    retry_after_s=RETRY_S,
                ) from error
            if isinstance(error, Exception) and not isinstance(error, RtcAgentError):
                logger.info("an offer could not be answered: %.200r", error)
                raise InvalidOffer(_why(error)) from error
            raise
        return peer, answer

    # -- Transport ------------------------------------------------------------------------------

    @property
    def source(self) -> FrameAligner:
        return self._source

    @property
    def connected(self) -> bool:
        """Media has been able to flow, and the connection is not closed."""
        return self._connected and self._closing is None

    def play(self, pcm: Pcm) -> None:
        if self._track is not None:
            self._track.play(pcm)

    def flush(self) -> None:
        if self._track is not None:
            self._track.flush()

    def send(self, label: str, message: str) -> bool:
        channel = self._channels.get(label)
        if channel is None or channel.readyState != "open" or self._closing is not None:
            return False
        if channel.bufferedAmount + len(message) > MAX_BUFFERED_BYTES:
            return False
        try:
            channel.send(message)
        except ValueError as error:
            logger.warning("a message for channel %r was not sent: %s", label, error)
            return False
        return True

    def silent_s(self) -> float:
        return self._clock.now() - self._heard_s

    def stats(self) -> TransportStats:
        if self._receiver is None or self._track is None:
            return TransportStats()
        receive, playout = self._receiver.stats(), self._track.buffer
        return TransportStats(
            packets_received=receive.packets_received,
            packets_lost=receive.packets_lost,
            concealed_ms=receive.concealed_ms,
            dropped_ms=receive.dropped_ms,
            packets_sent=self._track.packets_sent,
            underruns=playout.underruns,
            jitter_ms=receive.jitter_ms,
            receive_buffer_ms=receive.buffer_ms,
            playout_buffer_ms=playout.queued / 24,
        )

    async def aclose(self) -> None:
        if self._closing is None:
            self._begin_close()
        assert self._closing is not None
        await asyncio.shield(self._closing)

    # -- beyond Transport -----------------------------------------------------------------------

    async def add_candidate(
        self,
        candidate: str | None,
        sdp_mid: str | None = None,
        sdp_mline_index: int | None = None,
    ) -> None:
        """Take a trickled candidate in any form that clients send; end-of-candidates included.

        A candidate of no use here (TCP, a name that does not resolve) is ignored.

        Raises:
            InvalidRequest: it cannot be read as a candidate.
        """
        text = sdp.candidate_text(candidate)
        if text is None or self._closing is not None or self._offer is None:
            # The end of candidates is not passed on: ICE would fail at once for a caller that is
            # to be learned from its own checks. The call's connect timeout ends the wait instead.
            return
        try:
            parsed = candidate_from_sdp(text)
        except (ValueError, AssertionError, IndexError) as error:
            raise InvalidRequest(f"The ICE candidate {text[:120]!r} cannot be read.") from error
        if parsed.protocol.lower() != "udp" or parsed.component != 1 or not sdp.has_port(text):
            return
        self._candidates += 1
        if self._candidates > MAX_CANDIDATES:
            return
        parsed.sdpMid = self._section_of(sdp_mid, sdp_mline_index)
        # Resolving a `.local` name takes seconds; the caller of this waits for none of it.
        restart = self._restart if self._restart is not None and self._restart.pending else None
        add = self._pc.addIceCandidate if restart is None else restart.add_candidate
        task = asyncio.ensure_future(add(parsed))
        task.add_done_callback(_log_candidate_failure)

    async def renegotiate(self, offer_sdp: str) -> str:
        """The answer to another offer over the connection that there is.

        Raises:
            InvalidOffer, UnsupportedOffer: it cannot be answered at all.
            CallConflict: it asks for something else than was agreed on.
        """
        offer = sdp.read_offer(offer_sdp, self._flow)
        known = self._offer
        if known is None or self._closing is not None:
            raise CallConflict("This connection is closed.")
        self._answered = sdp.answer_again(known, offer, self._answered)
        self._offer = offer
        for candidate in offer.audio.attributes("candidate"):
            if candidate not in known.audio.attributes("candidate"):
                with contextlib.suppress(InvalidRequest):
                    await self.add_candidate(candidate, offer.audio.mid)
        return self._dress(offer)

    async def restart_ice(self, ufrag: str, password: str) -> IceSession:
        """This side of a new ICE session; see `RestartingTransport`."""
        async with self._restarting:
            if self._closing is not None:
                raise CallConflict("This connection is closed.")
            restart = await IceRestart.begin(self._pc, self._ice, self._on_arrival)
            if self._restart is not None:
                await self._restart.aclose()
            self._restart, self._candidates = restart, 0
            restart.start(ufrag, password)
            if self._closing is not None:
                await restart.aclose()
                raise CallConflict("The connection closed while a new path was sought.")
        text = "\r\n".join(f"a=candidate:{each}" for each in restart.candidates)
        if self._ice.public_ip is not None:
            text = sdp.rewrite_host_candidates(text, shim.local_addresses(), self._ice.public_ip)
        found = tuple(line.removeprefix("a=candidate:") for line in text.split("\r\n") if line)
        assert self._offer is not None
        return IceSession(restart.ufrag, restart.password, found, self._offer.audio.mid or "0")

    # -- inside ---------------------------------------------------------------------------------

    async def _negotiate(self, offer: sdp.Offer, ice: IceSettings, flow: sdp.Flow) -> str:
        self._offer, self._ice, self._flow = offer, ice, flow
        pc = self._pc
        pc.on("connectionstatechange", self._on_connection_state)
        pc.on("datachannel", self._on_data_channel)
        # A transceiver made before the remote description answers sendrecv, one made by it
        # recvonly; the track itself follows when the codec is known.
        transceiver = pc.addTransceiver("audio", flow.direction)
        await pc.setRemoteDescription(RTCSessionDescription(offer.reduced, "offer"))
        shim.restrict_hosts(pc, ice.hosts, ice.ports)
        answer = await pc.createAnswer()
        audio = next(s for s in sdp.Description.parse(answer.sdp).sections if s.kind == "audio")
        self._open_media(transceiver, audio)
        with remembering_relays(ice.relays):
            await pc.setLocalDescription(answer)
        shim.watch_arrivals(pc, self._on_arrival)
        if self._receiver is not None:
            rtp_path.receive_directly(transceiver.receiver, self._on_packet)
        allow_restarts(pc)
        self._answered = pc.localDescription.sdp
        return self._dress(offer)

    def _dress(self, offer: sdp.Offer) -> str:
        """The answer as the offerer is to read it."""
        text = sdp.complete_answer(offer, self._answered)
        text = sdp.tune_answer(text, OPUS_PARAMETERS)
        if self._flow is not sdp.Flow.CALL:
            text = sdp.mirror_mux_only(offer, text)
        if self._ice.public_ip is not None:
            text = sdp.rewrite_host_candidates(text, shim.local_addresses(), self._ice.public_ip)
        return text

    def _open_media(self, transceiver: RTCRtpTransceiver, audio: sdp.Section) -> None:
        """Set up both directions for the codecs of the answer, the first of which is sent."""
        agreed: dict[int, CodecInfo] = {}
        for payload_type, name in audio.codec_names().items():
            codec = CODECS.get(name.split("/")[0].lower())
            if codec is not None:
                agreed[payload_type] = codec
        if not agreed:
            raise UnsupportedOffer("No common audio codec remained after negotiation.")
        payload_type, self.codec = next(iter(agreed.items()))
        assert self._offer is not None
        asked = self._offer.audio.parameters(payload_type).get("maxaveragebitrate", "")
        bitrate = min(int(asked), DEFAULT_BITRATE) if asked.isdigit() else None
        self._turn = turns.of_this_process.take()
        self._track = PlayoutTrack(
            self.codec, self._clock, bitrate=bitrate, turn_s=turns.wait_s(self._turn)
        )
        transceiver.sender.replaceTrack(self._track)
        rtp_path.send_directly(transceiver.sender)
        receiver = AudioReceiver(agreed)
        if shim.tap_audio(transceiver.receiver, self._on_packet):
            self._receiver = self._source.receiver = receiver

    def _on_packet(self, packet: shim.RtpPacket) -> None:
        self._heard_s = self._clock.now()
        if self._receiver is not None:
            self._receiver.push(packet, self._heard_s)

    def _on_arrival(self) -> None:
        self._heard_s = self._clock.now()

    def _on_connection_state(self) -> None:
        if self._closing is not None:
            return
        state = self._pc.connectionState
        if state == "connected" and not self._connected:
            self._connected = True
            self._heard_s = self._clock.now()
            self._loss_task = asyncio.ensure_future(self._follow_loss())
            self._events.on_connected()
        elif state in ("closed", "failed"):
            reason = "peer_closed" if state == "closed" else "connection_failed"
            self._begin_close()
            self._events.on_closed(reason)

    def _begin_close(self) -> None:
        if self._track is not None:
            self._track.stop()
        if self._turn is not None:
            turns.of_this_process.give_back(self._turn)
            self._turn = None
        if self._loss_task is not None:
            self._loss_task.cancel()
        self._closing = asyncio.ensure_future(self._close())

    async def _close(self) -> bool:
        if self._restart is not None:
            await self._restart.aclose()
        return await shim.close(self._pc, CLOSE_TIMEOUT_S)

    async def _follow_loss(self) -> None:
        """Make the encoder's redundancy as strong as the caller's receiver reports say it must be:
        stronger at once, weaker by and by."""
        loss = 0.0
        while True:
            await self._clock.sleep_until(self._clock.now() + LOSS_EVERY_S)
            for sender in self._pc.getSenders():
                for report in (await sender.getStats()).values():
                    if report.type == "remote-inbound-rtp":
                        loss = max(report.fractionLost / 256, loss * LOSS_DECAY)
            if self._track is not None:
                low, high = EXPECTED_LOSS_PERCENT
                self._track.expect_loss(min(max(round(100 * loss), low), high))

    def _on_data_channel(self, channel: RTCDataChannel) -> None:
        if len(self._channels) >= MAX_CHANNELS or channel.label in self._channels:
            channel.close()
            return
        label = channel.label
        self._channels[label] = channel

        def on_close() -> None:
            if self._channels.get(label) is channel:
                del self._channels[label]

        channel.on("close", on_close)

        def on_message(message: str | bytes) -> None:
            self._on_message(label, message)

        channel.on("message", on_message)
        if channel.readyState == "open":
            # A channel made by the peer is announced open, and its `open` event never fires.
            self._events.on_channel(label)
        else:
            channel.on("open", lambda: self._events.on_channel(label))

    def _on_message(self, label: str, message: str | bytes) -> None:
        if self._closing is not None:
            return
        self._events.on_message(label, _readable(message))

    def _section_of(self, mid: str | None, index: int | None) -> str | None:
        """The mid of the negotiated section whose transport a candidate belongs to."""
        assert self._offer is not None
        offer = self._offer
        if offer.bundled or offer.data is None:
            return offer.audio.mid
        if mid is None and index is not None and 0 <= index < len(offer.original.sections):
            mid = offer.original.sections[index].mid
        return offer.data.mid if mid == offer.data.mid else offer.audio.mid


def _readable(message: str | bytes) -> str:
    """The message as text; empty, which no protocol has a meaning for, if it is none or too long:
    so it is answered and counted as any other that is not understood."""
    raw = message if isinstance(message, bytes) else message.encode(errors="replace")
    if len(raw) > MAX_MESSAGE_BYTES:
        return ""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return ""


def _log_candidate_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        logger.debug("an ICE candidate was not used: %r", error)


def _why(error: Exception) -> str:
    if isinstance(error, InvalidOffer):
        return error.message
    text = str(error).strip()[:200]
    return "The offer cannot be answered" + (f": {text}." if text else ".")
