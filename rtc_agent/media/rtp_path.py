"""The short way of audio packets between a socket and a call, past aiortc's queues and tasks.

aiortc hands a datagram to a queue, a task, a router and a receiver, and makes an outgoing packet of
an `av.Packet`; at fifty packets a second each way, this costs more than decoding them. Here
a datagram is decrypted and handed on where the socket gives it, and an outgoing packet is header
and payload. All else (ICE, DTLS, RTCP, the first packet of each source) goes aiortc's way, whose
counts are kept up. Like `aiortc_shim`, this uses private names of aiortc 1.16 and aioice 0.13;
`check()` tells of those that have moved, and then nothing here is used. Can go once aiortc takes
and gives encoded packets without a task for each.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import struct
import time
from collections.abc import Callable
from typing import Any, Protocol

import aioice.ice
import pylibsrtp
from aiortc import RTCRtpReceiver, RTCRtpSender
from aiortc.mediastreams import MediaStreamError
from aiortc.rtcdtlstransport import RTCDtlsTransport, RtpRouter
from aiortc.rtcicetransport import RTCIceTransport
from aiortc.rtcrtpreceiver import StreamStatistics
from aiortc.rtp import HeaderExtensions, RtpPacket

from rtc_agent.media.moved import moved_uses

logger = logging.getLogger(__name__)

_HEADER = struct.Struct("!BBHLL")
_VERSION_2 = 0x80
_PADDED, _EXTENDED, _SOURCES = 0x20, 0x10, 0x0F
_MARKED = 0x80
_NTP_OFFSET_S = 2_208_988_800
"""From NTP's epoch to Unix's (RFC 5905)."""
_RECEIVER = "_RTCRtpReceiver__"
_SENDER = "_RTCRtpSender__"
_COUNTS = ("ntp_timestamp", "rtp_timestamp", "packet_count", "octet_count")
"""What a sender's reports are made of (RFC 3550, 6.4.1)."""


class PacketTrack(Protocol):
    """A track that gives encoded packets."""

    async def next_packet(self) -> tuple[bytes, int]:
        """The next payload, when it is due, and its RTP timestamp. Raises MediaStreamError once
        stopped."""
        ...


@functools.cache
def check() -> tuple[str, ...]:
    """What moved in the installed aiortc and aioice; empty if every touch still fits."""
    uses: list[tuple[Callable[..., Any], str]] = [
        (aioice.ice.StunProtocol.datagram_received, "data_received"),
        (RTCIceTransport.__init__, "_connection"),
        (RTCDtlsTransport.__init__, "_rtp_router"),
        (RTCDtlsTransport._recv_next, "_rx_srtp"),
        (RTCDtlsTransport._handle_rtp_data, "_rtp_router"),
        (RtpRouter.route_rtp, "ssrc_table"),
        (StreamStatistics.add, "sequence_number"),
        (RTCRtpSender.send, "_run_rtp"),
        (RTCRtpSender._run_rtp, "_send_rtp"),
    ]
    for owner, prefix, names in (
        (RTCRtpReceiver._handle_rtp_packet, _RECEIVER, ("codecs", "remote_streams")),
        (RTCRtpSender._run_rtp, _SENDER, ("rtp_started", "rtp_exited")),
        (RTCRtpSender._run_rtp, _SENDER, ("mid", "rtp_header_extensions_map")),
        (RTCRtpSender._run_rtcp, _SENDER, _COUNTS),
        (RTCRtpReceiver._handle_rtp_packet, "_", ("enabled",)),
        (RTCRtpSender._next_encoded_frame, "_", ("enabled",)),
    ):
        uses += [(owner, prefix + name) for name in names]
    return tuple(moved_uses(uses))


def receive_directly(receiver: RTCRtpReceiver, on_packet: Callable[[RtpPacket], None]) -> bool:
    """Hand on a receiver's packets as its socket gives them. Its jitter buffer gets none but the
    first of each source: `aiortc_shim.tap_audio` is to be there for those.

    Call after negotiation, when the final transports are known.

    Returns:
        False if this aiortc is another than it was written for; packets then come as ever.
    """
    if check():
        return False
    dtls: Any = receiver.transport
    router: Any = dtls._rtp_router
    codecs: dict[int, Any] = getattr(receiver, f"{_RECEIVER}codecs")
    streams: dict[int, StreamStatistics] = getattr(receiver, f"{_RECEIVER}remote_streams")

    def take(data: bytes) -> bool:
        # RFC 7983 tells media by its first byte; a payload type of 64 to 95 is RTCP (RFC 5761).
        if len(data) < _HEADER.size or not 127 < data[0] < 192 or 192 <= data[1] <= 223:
            return False
        first, second, sequence, timestamp, ssrc = _HEADER.unpack_from(data)
        stream = streams.get(ssrc)
        known = stream is not None and router.ssrc_table.get(ssrc) is receiver
        if not known or second & 0x7F not in codecs or not receiver._enabled:
            return False
        try:
            payload = _payload(first, dtls._rx_srtp.unprotect(data))
        except (pylibsrtp.Error, ValueError) as error:
            logger.debug("an RTP packet was not taken: %s", error)
            return True
        packet = RtpPacket(second & 0x7F, second >> 7, sequence, timestamp, ssrc, payload)
        assert stream is not None
        stream.add(packet)
        try:
            on_packet(packet)
        except Exception:
            # An exception here would end up in the socket's own callback.
            logger.exception("an audio packet could not be taken in")
        return True

    _divert(dtls.transport._connection, take)
    return True


def follow(old: aioice.ice.Connection, new: aioice.ice.Connection) -> None:
    """Go on with another ICE connection, which takes the place of one."""
    received = vars(old).get("data_received")
    if isinstance(received, functools.partial):
        _divert(new, received.args[0])


def _divert(connection: Any, take: Callable[[bytes], bool]) -> None:
    connection.data_received = functools.partial(_received, take, connection.data_received)


def _received(
    take: Callable[[bytes], bool],
    leave: Callable[[bytes, int], None],
    data: bytes,
    component: int,
) -> None:
    if not take(data):
        leave(data, component)


def _payload(first: int, packet: bytes) -> bytes:
    """What lies behind the header, whose first byte is given, and before the padding (RFC 3550,
    5.1 and 5.3.1). Raises ValueError if there is no such place."""
    begin, end = _HEADER.size + 4 * (first & _SOURCES), len(packet)
    if first & _EXTENDED:
        if begin + 4 > end:
            raise ValueError("its header extension is cut off")
        begin += 4 + 4 * int.from_bytes(packet[begin + 2 : begin + 4])
    if first & _PADDED:
        if not packet[-1]:
            raise ValueError("its padding has no length")
        end -= packet[-1]
    if begin > end:
        raise ValueError("it is shorter than its header says")
    return packet[begin:end]


def send_directly(sender: RTCRtpSender) -> bool:
    """Have a sender send what its track, a `PacketTrack`, gives. Call before it starts.

    Returns:
        False if this aiortc is another than it was written for; the track is then asked for frames.
    """
    if check():
        return False

    async def run(codec: Any) -> None:
        await _send(sender, codec.payloadType)

    sender._run_rtp = run  # type: ignore[method-assign]
    return True


async def _send(sender: Any, payload_type: int) -> None:
    """What `RTCRtpSender._run_rtp` does, for encoded packets."""
    getattr(sender, f"{_SENDER}rtp_started").set()
    extension = _extension(sender)
    first = _VERSION_2 | (_EXTENDED if extension else 0)
    # Below half its range: a wrap within the first packets breaks SRTP (RFC 3711, 3.3.1).
    sequence = random.getrandbits(15)
    origin = random.getrandbits(32)
    packets = octets = 0
    try:
        while True:
            payload, place = await sender.track.next_packet()
            if not sender._enabled:
                continue
            timestamp = (origin + place) & 0xFFFF_FFFF
            header = _HEADER.pack(first, _MARKED | payload_type, sequence, timestamp, sender._ssrc)
            await sender.transport._send_rtp(header + extension + payload)
            sequence = (sequence + 1) & 0xFFFF
            packets, octets = packets + 1, octets + len(payload)
            ntp = int((time.time() + _NTP_OFFSET_S) * 2**32)
            for name, value in zip(_COUNTS, (ntp, timestamp, packets, octets), strict=True):
                setattr(sender, _SENDER + name, value)
    except (asyncio.CancelledError, ConnectionError, MediaStreamError):
        pass
    except Exception:
        # `RTCRtpSender.stop` waits for this to say that it has ended.
        logger.exception("a sender of audio ended")
    if sender.track is not None:
        sender.track.stop()
    getattr(sender, f"{_SENDER}rtp_exited").set()


def _extension(sender: Any) -> bytes:
    """The header extension of every packet: which media section it belongs to (RFC 8843, 15)."""
    extensions = HeaderExtensions(mid=getattr(sender, f"{_SENDER}mid"))
    profile, value = getattr(sender, f"{_SENDER}rtp_header_extensions_map").set(extensions)
    return struct.pack("!HH", profile, len(value) // 4) + value if value else b""
