"""What a caller says: streams of 20 ms packets, encoded as they are needed or beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from rtc_agent.engine.stepper import Pcm
from rtc_agent.media.codecs import PACKET_SAMPLES, AudioEncoder

NOT_SENT = b""
"""A packet's time passes but nothing is sent (DTX)."""

_DTX_LEVEL = 10 ** (-60 / 20)
_DTX_HANGOVER = 10
_DTX_EVERY = 20


class PacketSource(Protocol):
    """A finite stream of payloads, 20 ms each."""

    def next(self) -> bytes | None:
        """The next payload, `NOT_SENT`, or None at the end and ever after."""
        ...


def blocks(pieces: Iterable[Pcm]) -> Iterator[Pcm]:
    """Pieces of any length as [480] blocks; the last is padded with silence."""
    held = np.zeros(0, np.float32)
    for piece in pieces:
        held = np.concatenate([held, piece])
        whole = len(held) // PACKET_SAMPLES * PACKET_SAMPLES
        yield from held[:whole].reshape(-1, PACKET_SAMPLES)
        held = held[whole:]
    if len(held):
        yield np.pad(held, (0, PACKET_SAMPLES - len(held)))


class EncodedSource:
    """Audio encoded packet by packet while the call goes on."""

    def __init__(self, pieces: Iterable[Pcm], encoder: AudioEncoder, *, dtx: bool = False) -> None:
        """With `dtx`, 200 ms of silence (below −60 dBFS) start a pause in which only one packet
        every 400 ms is sent, as Opus senders do it."""
        self._blocks = blocks(pieces)
        self._encoder = encoder
        self._dtx = dtx
        self._quiet = 0

    def next(self) -> bytes | None:
        block = next(self._blocks, None)
        if block is None:
            return None
        payload = self._encoder.encode(block)
        if self._dtx:
            self._quiet = self._quiet + 1 if np.abs(block).max() < _DTX_LEVEL else 0
            if self._quiet > _DTX_HANGOVER and (self._quiet - _DTX_HANGOVER) % _DTX_EVERY:
                return NOT_SENT
        return payload


class PayloadSource:
    """Payloads made beforehand, for callers that must cost next to nothing."""

    def __init__(self, payloads: Sequence[bytes]) -> None:
        self._payloads = iter(payloads)

    def next(self) -> bytes | None:
        return next(self._payloads, None)


class Silence:
    """Endless silence."""

    def __init__(self, encoder: AudioEncoder) -> None:
        self._encoder = encoder
        self._block = np.zeros(PACKET_SAMPLES, np.float32)

    def next(self) -> bytes:
        return self._encoder.encode(self._block)


class SilentPayload:
    """Endless silence that is encoded once."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def next(self) -> bytes:
        return self._payload
