"""The audio codecs a call can agree on, seen as 24 kHz mono in and out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media.g711_g722 import PcmDecoder, PcmEncoder
from rtc_agent.media.opus import open_decoder, open_encoder, opus_duration

PACKET_S = 0.020
"""Every packet this server sends."""
PACKET_SAMPLES = round(SAMPLE_RATE * PACKET_S)
"""Samples of a sent packet at 24 kHz."""


class AudioEncoder(Protocol):
    """20 ms of speech to one RTP payload."""

    def encode(self, pcm: Pcm) -> bytes:
        """[PACKET_SAMPLES] at 24 kHz in −1 … 1."""
        ...

    def expect_loss(self, percent: int) -> None:
        """Be ready for so much loss on the way; codecs without redundancy ignore it."""
        ...


class AudioDecoder(Protocol):
    """RTP payloads to speech, and a stand-in for those that are missing."""

    def decode(self, payload: bytes) -> Pcm:
        """A payload to its samples at 24 kHz. Raises CodecError for garbage."""
        ...

    def has_redundancy(self, payload: bytes) -> bool:
        """Whether the packet before this one could be had from it."""
        ...

    def recover(self, next_payload: bytes, samples: int) -> Pcm | None:
        """The `samples` lost just before `next_payload`, out of its redundancy, if it has any."""
        ...

    def conceal(self, samples: int) -> Pcm:
        """A plausible continuation of `samples`."""
        ...


@dataclass(frozen=True, slots=True)
class CodecInfo:
    """A codec as RTP sees it."""

    name: str
    clock_rate: int
    """Of its RTP timestamps, in Hz. G.722's is 8,000 by an old mistake (RFC 3551, 4.5.2)."""

    @property
    def timestamp_step(self) -> int:
        """RTP timestamp units of a 20 ms packet."""
        return round(self.clock_rate * PACKET_S)

    def duration(self, payload: bytes) -> int:
        """Samples at 24 kHz that a payload holds; 0 if it holds none."""
        if self.name == "opus":
            return opus_duration(payload)
        return len(payload) * SAMPLE_RATE // self.clock_rate


OPUS = CodecInfo("opus", 48_000)
G722 = CodecInfo("G722", 8_000)
PCMU = CodecInfo("PCMU", 8_000)
PCMA = CodecInfo("PCMA", 8_000)
CODECS = {codec.name.lower(): codec for codec in (OPUS, G722, PCMU, PCMA)}
"""By RTP name in lower case."""


def encoder_for(codec: CodecInfo | str, *, bitrate: int | None = None) -> AudioEncoder:
    """A fresh encoder; `bitrate` in bit/s counts for Opus alone."""
    name = codec if isinstance(codec, str) else codec.name
    if name.lower() == "opus":
        return open_encoder(bitrate)
    return PcmEncoder(name)


def decoder_for(codec: CodecInfo | str) -> AudioDecoder:
    """A fresh decoder."""
    name = codec if isinstance(codec, str) else codec.name
    if name.lower() == "opus":
        return open_decoder()
    return PcmDecoder(name)


def silence(samples: int) -> Pcm:
    """Digital silence."""
    return np.zeros(samples, np.float32)
