"""A caller over the Moshi WebSocket protocol as a call's `Transport`.

What is sent leaves at once: over TCP the listener's own buffer is the only one that helps.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

import numpy as np

from rtc_agent import __version__
from rtc_agent.call.transport import TransportEvents, TransportStats
from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media.codecs import OPUS, PACKET_SAMPLES, decoder_for, encoder_for
from rtc_agent.media.stream_source import StreamSource
from rtc_agent.protocol import moshi
from rtc_agent.protocol.moshi import Kind
from rtc_agent.protocol.ogg import OpusReader, OpusWriter

logger = logging.getLogger(__name__)

PACKETS_PER_PAGE = 2
"""40 ms: half the overhead of single packets, and no wait, as a frame is 80 ms."""
_TO_OPUS = OPUS.clock_rate // SAMPLE_RATE
"""Ogg counts Opus in samples at 48 kHz (RFC 7845, 4)."""

Post = Callable[[bytes], bool]
"""Queues one WebSocket message; False if the peer does not read and it was not queued."""


class MoshiTransport:
    """One connection; implements `rtc_agent.call.transport.Transport`."""

    def __init__(self, events: TransportEvents, post: Post, close: Callable[[], None]) -> None:
        """
        Args:
            post: sends a message to the peer.
            close: ends the connection once everything posted has been sent.
        """
        self._events = events
        self._post = post
        self._close = close
        self._source = StreamSource(decoder_for(OPUS))
        self._reader = OpusReader()
        self._writer = OpusWriter(secrets.randbits(32), SAMPLE_RATE, f"rtc-agent {__version__}")
        self._encoder = encoder_for(OPUS)
        self._unsent = np.empty(0, np.float32)
        self._packets_sent = 0
        self._dropped_pages = 0
        self._head = self._writer.head()
        """The stream's first two pages, until they have been sent."""
        self._closed = False

    def open(self) -> None:
        """The WebSocket is there: media can flow, and messages too."""
        self._events.on_connected()
        self._events.on_channel(moshi.LABEL)

    def receive(self, message: bytes) -> None:
        """Take in a WebSocket message.

        Raises:
            InvalidRequest: its sound is not Ogg Opus; the connection is of no use.
        """
        if not message or self._closed:
            return
        kind, payload = message[0], message[1:]
        if kind == Kind.AUDIO:
            for packet in self._reader.push(payload):
                self._source.push(packet)
        elif kind in (Kind.CONTROL, Kind.PING, Kind.METADATA):
            self._events.on_message(moshi.LABEL, message.decode("latin-1"))
        else:
            logger.debug("a message of kind %d was let go", kind)

    def lost(self, reason: str) -> None:
        """The peer closed the connection (`peer_closed`) or it failed (`connection_failed`)."""
        if not self._closed:
            self._closed = True
            self._events.on_closed(reason)

    @property
    def source(self) -> StreamSource:
        return self._source

    def play(self, pcm: Pcm) -> None:
        self._unsent = np.concatenate([self._unsent, pcm])
        page = PACKETS_PER_PAGE * PACKET_SAMPLES
        while len(self._unsent) >= page:
            samples, self._unsent = self._unsent[:page], self._unsent[page:]
            packets = [
                self._encoder.encode(samples[i : i + PACKET_SAMPLES])
                for i in range(0, page, PACKET_SAMPLES)
            ]
            self._send_page(packets)

    def flush(self) -> None:
        self._unsent = np.empty(0, np.float32)

    def send(self, label: str, message: str) -> bool:
        return label == moshi.LABEL and not self._closed and self._post(message.encode())

    def silent_s(self) -> float:
        """Always 0: a muted client sends nothing for minutes, and whether the peer is still there
        is found out by the WebSocket's own pings."""
        return 0.0

    def stats(self) -> TransportStats:
        source = self._source
        per_ms = SAMPLE_RATE / 1000
        return TransportStats(
            packets_received=source.packets,
            concealed_ms=source.concealed / per_ms,
            dropped_ms=source.dropped / per_ms,
            packets_sent=self._packets_sent,
            underruns=self._dropped_pages,
            receive_buffer_ms=source.waiting / per_ms,
        )

    async def aclose(self) -> None:
        self._closed = True
        self._close()

    def _send_page(self, packets: list[bytes]) -> None:
        if self._closed:
            return
        page = self._writer.write(packets, len(packets) * PACKET_SAMPLES * _TO_OPUS)
        if self._post(bytes([Kind.AUDIO]) + self._head + page):
            self._head = b""
            self._packets_sent += len(packets)
        else:
            self._dropped_pages += 1
