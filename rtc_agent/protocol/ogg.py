"""Ogg pages (RFC 3533) and Opus in them (RFC 7845), one stream, written and read piece by piece.

A live stream cannot wait for a file: bytes come in any pieces, a packet may span pages, and a
client that was muted starts a new stream in the middle.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rtc_agent.errors import InvalidRequest

CAPTURE = b"OggS"
_HEADER = struct.Struct("<4sBBqIIIB")
CONTINUED, FIRST, LAST = 1, 2, 4
MAX_PACKET_BYTES = 64 * 1024
"""Far more than any Opus packet; a stream that never ends a packet is stopped here."""
MAX_SEGMENTS = 255

_POLYNOMIAL = 0x04C11DB7


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = ((value << 1) ^ _POLYNOMIAL if value & 0x80000000 else value << 1) & 0xFFFFFFFF
        table.append(value)
    return table


_TABLE = _crc_table()


def checksum(page: bytes) -> int:
    """The page's CRC with its own field taken as zero: MSB first, nothing inverted."""
    crc = 0
    for byte in page:
        crc = ((crc << 8) & 0xFFFFFFFF) ^ _TABLE[(crc >> 24) ^ byte]
    return crc


def opus_head(sample_rate: int) -> bytes:
    """The identification header of a mono stream.

    Args:
        sample_rate: of the sound before it was encoded, Hz; only informs.
    """
    return struct.pack("<8sBBHIhB", b"OpusHead", 1, 1, 0, sample_rate, 0, 0)


def opus_tags(vendor: str) -> bytes:
    """The comment header, without comments."""
    name = vendor.encode()
    return struct.pack("<8sI", b"OpusTags", len(name)) + name + struct.pack("<I", 0)


class OpusWriter:
    """Writes one Opus stream. Not for more than 2³² pages."""

    def __init__(self, serial: int, sample_rate: int, vendor: str) -> None:
        self._serial = serial
        self._sequence = 0
        self._granule = 0
        self._headers = (opus_head(sample_rate), opus_tags(vendor))

    def head(self) -> bytes:
        """The two pages that every stream begins with."""
        first, second = self._headers
        return self._page([first], FIRST, 0) + self._page([second], 0, 0)

    def write(self, packets: Sequence[bytes], samples: int) -> bytes:
        """A page of whole packets.

        Args:
            packets: at most 255 segments of 255 bytes in all.
            samples: how long they are together, at 48 kHz whatever the input rate (RFC 7845, 4).
        """
        self._granule += samples
        return self._page(packets, 0, self._granule)

    def _page(self, packets: Sequence[bytes], flags: int, granule: int) -> bytes:
        lacing = b"".join(b"\xff" * (len(p) // 255) + bytes([len(p) % 255]) for p in packets)
        if len(lacing) > MAX_SEGMENTS:
            raise ValueError("the packets do not fit in one page")
        fields = (CAPTURE, 0, flags, granule, self._serial, self._sequence)
        body = lacing + b"".join(packets)
        crc = checksum(_HEADER.pack(*fields, 0, len(lacing)) + body)
        self._sequence += 1
        return _HEADER.pack(*fields, crc, len(lacing)) + body


@dataclass(frozen=True, slots=True)
class _Page:
    flags: int
    segments: tuple[bytes, ...]
    """With the lacing value of each: shorter than 255 ends a packet."""


class OpusReader:
    """Takes a stream in any pieces and gives its audio packets.

    Damaged pages are skipped and counted. A new stream in the middle is taken up where it begins.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._partial: bytearray | None = None
        """A packet whose end is still to come; None while none is wanted (after a gap)."""
        self._headers_left = 2
        self.damaged = 0
        """Bytes skipped because they belonged to no sound page."""

    def push(self, data: bytes) -> Iterator[bytes]:
        """Audio packets that these bytes complete.

        Raises:
            InvalidRequest: the stream is not Opus, or a packet never ends.
        """
        self._buffer += data
        while (page := self._take_page()) is not None:
            yield from self._read(page)

    def _take_page(self) -> _Page | None:
        while True:
            start = self._buffer.find(CAPTURE)
            if start < 0:
                self._skip(max(0, len(self._buffer) - len(CAPTURE) + 1))
                return None
            self._skip(start)
            if len(self._buffer) < _HEADER.size:
                return None
            *_, version, flags, _, _, _, crc, count = _HEADER.unpack_from(self._buffer)
            lacing_end = _HEADER.size + count
            if len(self._buffer) < lacing_end:
                return None
            lacing = self._buffer[_HEADER.size : lacing_end]
            end = lacing_end + sum(lacing)
            if len(self._buffer) < end:
                return None
            page = bytes(self._buffer[:end])
            if version != 0 or checksum(page[:22] + b"\0\0\0\0" + page[26:]) != crc:
                self._skip(1)
                continue
            del self._buffer[:end]
            segments, at = [], lacing_end
            for length in lacing:
                segments.append(page[at : at + length])
                at += length
            return _Page(flags, tuple(segments))

    def _skip(self, count: int) -> None:
        self.damaged += count
        if count:
            self._partial = None
        del self._buffer[:count]

    def _read(self, page: _Page) -> Iterator[bytes]:
        if page.flags & FIRST:
            self._headers_left = 2
            self._partial = bytearray()
        wanted = self._partial is not None or not page.flags & CONTINUED
        if not page.flags & CONTINUED:
            self._partial = bytearray()
        for segment in page.segments:
            if not wanted:
                wanted = len(segment) < 255
                self._partial = bytearray()
                continue
            partial = self._partial if self._partial is not None else bytearray()
            partial += segment
            self._partial = partial
            if len(partial) > MAX_PACKET_BYTES:
                raise InvalidRequest("An Ogg packet is longer than any Opus packet can be.")
            if len(segment) < 255:
                self._partial = bytearray()
                yield from self._packet(bytes(partial))

    def _packet(self, packet: bytes) -> Iterator[bytes]:
        if self._headers_left == 2 and not packet.startswith(b"OpusHead"):
            raise InvalidRequest("The stream is not Ogg Opus: it does not start with OpusHead.")
        if self._headers_left:
            self._headers_left -= 1
        elif packet:
            yield packet
