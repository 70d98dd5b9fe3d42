"""A peer connection to a telephone gateway: one codec, keys in the audio, either side offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from aiortc import RTCRtpSender, RTCRtpTransceiver, RTCSessionDescription
from aiortc.rtcrtpparameters import RTCRtpCodecCapability

from rtc_agent.call.transport import TransportEvents
from rtc_agent.clock import Clock
from rtc_agent.errors import InvalidOffer, RtcAgentError
from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media.ice import IceSettings
from rtc_agent.media.peer import WebRtcPeer
from rtc_agent.protocol import sdp
from rtc_agent.protocol.telephone_sdp import (
    TELEPHONE_EVENT,
    only_best_codec,
    telephone_event_type,
)

OnTelephoneEvent = Callable[[bytes, int], None]
"""Payload and RTP timestamp of a packet of keys (RFC 4733)."""


class PhonePeer(WebRtcPeer):
    """A `WebRtcPeer` that agrees on one codec and hands on the telephone's keys.

    Keys share the audio's sequence numbers and are in nothing that the agent hears.
    """

    _on_telephone_event: OnTelephoneEvent | None = None
    _telephone_type: int | None = None
    _transceiver: RTCRtpTransceiver | None = None

    @classmethod
    async def take_offer(
        cls,
        offer_sdp: str,
        *,
        events: TransportEvents,
        on_telephone_event: OnTelephoneEvent,
        codecs: Sequence[str],
        ice: IceSettings,
        clock: Clock,
    ) -> tuple[Self, str]:
        """Answer an offer with the best of `codecs` (RTP names, best first) that it has.

        Raises:
            InvalidOffer, UnsupportedOffer: as `WebRtcPeer.answer`.
        """
        wanted = only_best_codec(offer_sdp, codecs)
        peer, answer = await cls.answer(wanted, events=events, ice=ice, clock=clock)
        assert isinstance(peer, cls)
        peer._on_telephone_event = on_telephone_event
        peer._telephone_type = telephone_event_type(_audio(answer))
        return peer, answer

    @classmethod
    async def make_offer(
        cls,
        *,
        events: TransportEvents,
        on_telephone_event: OnTelephoneEvent,
        codecs: Sequence[str],
        ice: IceSettings,
        clock: Clock,
    ) -> tuple[Self, str]:
        """Offer audio in `codecs` (RTP names, best first), and keys within it.

        Returns:
            The peer, which waits for `accept`, and the offer with every candidate.
        """
        peer = cls(shim.new_peer_connection(ice), events, clock)
        peer._on_telephone_event = on_telephone_event
        try:
            return peer, await peer._offer_audio(codecs, ice)
        except BaseException:
            await peer.aclose()
            raise

    @property
    def codec_name(self) -> str | None:
        """RTP name of the codec agreed on; None before it is."""
        return self.codec.name if self.codec is not None else None

    async def accept(self, answer_sdp: str) -> None:
        """Take the answer to `make_offer`'s offer.

        Raises:
            InvalidOffer, UnsupportedOffer: it cannot be used; the connection is closed then.
        """
        transceiver = self._transceiver
        if transceiver is None:
            raise InvalidOffer("An answer came to a connection that made no offer.")
        try:
            self._offer = sdp.read_offer(answer_sdp)
            await self._pc.setRemoteDescription(RTCSessionDescription(answer_sdp, "answer"))
            audio = self._offer.audio
            self._open_media(transceiver, audio)
            self._telephone_type = telephone_event_type(audio)
            shim.watch_arrivals(self._pc, self._on_arrival)
        except Exception as error:
            await self.aclose()
            if isinstance(error, RtcAgentError):
                raise
            raise InvalidOffer(f"The answer cannot be used: {error}.") from error

    async def _offer_audio(self, codecs: Sequence[str], ice: IceSettings) -> str:
        pc = self._pc
        pc.on("connectionstatechange", self._on_connection_state)
        self._transceiver = pc.addTransceiver("audio", "sendrecv")
        self._transceiver.setCodecPreferences(_preferences(codecs))
        offer = await pc.createOffer()
        shim.restrict_hosts(pc, ice.hosts, ice.ports)
        await pc.setLocalDescription(offer)
        text = pc.localDescription.sdp
        if ice.public_ip is not None:
            text = sdp.rewrite_host_candidates(text, shim.local_addresses(), ice.public_ip)
        return text

    def _on_packet(self, packet: shim.RtpPacket) -> None:
        if packet.payload_type == self._telephone_type and self._on_telephone_event is not None:
            self._on_telephone_event(packet.payload, packet.timestamp)
        super()._on_packet(packet)


def _audio(text: str) -> sdp.Section:
    return next(s for s in sdp.Description.parse(text).sections if s.kind == "audio")


def _preferences(codecs: Sequence[str]) -> list[RTCRtpCodecCapability]:
    """aiortc's capabilities in that order, keys last."""
    known = RTCRtpSender.getCapabilities("audio").codecs
    wanted = [name.lower() for name in (*codecs, TELEPHONE_EVENT)]
    by_name = {c.mimeType.partition("/")[2].lower(): c for c in known}
    return [by_name[name] for name in wanted if name in by_name]
