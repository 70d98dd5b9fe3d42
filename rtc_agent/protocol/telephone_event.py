"""Telephone keys in RTP (RFC 4733): payloads, and presses out of repeated packets."""

from __future__ import annotations

from dataclasses import dataclass

CLOCK_RATE = 8_000
"""Hz, where the description does not say otherwise."""
PAYLOAD_BYTES = 4
_KEYS = "0123456789*#ABCD"
_WRAP = 1 << 32


@dataclass(frozen=True, slots=True)
class TelephoneEvent:
    """One packet's payload."""

    event: int
    """0–15 are the keys 0–9 * # A–D; 16 is a hook flash."""
    end: bool
    volume: int
    """Below 0 dBm0, in dB."""
    duration: int
    """Since the key went down, in timestamp units."""

    @property
    def key(self) -> str | None:
        """The key, or None for an event that is none."""
        return _KEYS[self.event] if self.event < len(_KEYS) else None

    def encode(self) -> bytes:
        """The four octets of RFC 4733, 2.3."""
        flags = (0x80 if self.end else 0) | (self.volume & 0x3F)
        return bytes((self.event & 0xFF, flags)) + min(self.duration, 0xFFFF).to_bytes(2, "big")


def parse(payload: bytes) -> TelephoneEvent | None:
    """A payload's (first) event; None if it is too short to be one."""
    if len(payload) < PAYLOAD_BYTES:
        return None
    flags = payload[1]
    return TelephoneEvent(
        event=payload[0],
        end=bool(flags & 0x80),
        volume=flags & 0x3F,
        duration=int.from_bytes(payload[2:4], "big"),
    )


class KeyDetector:
    """Each press once, out of packets that repeat it, come late, or fail to come.

    Every packet of a press has the RTP timestamp at which the key went down. A press counts when
    its first packet arrives, so that neither a lost end nor its three repetitions matter; what
    comes with the same timestamp, or an older one, belongs to a press that was counted.
    """

    def __init__(self) -> None:
        self._newest: int | None = None

    def push(self, payload: bytes, timestamp: int) -> str | None:
        """A packet's payload and RTP timestamp. Returns a key if it is the first of its press."""
        event = parse(payload)
        if event is None or event.key is None:
            return None
        if self._newest is not None:
            step = (timestamp - self._newest) % _WRAP
            if step == 0 or step >= _WRAP // 2:
                return None
        self._newest = timestamp
        return event.key
