"""Telephony codecs through PyAV: PCMU, PCMA (8 kHz) and G.722 (16 kHz)."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media.concealment import WaveformConcealer
from rtc_agent.media.opus import CodecError
from rtc_agent.media.resampler import Resampler

_FFMPEG = {
    "pcmu": ("pcm_mulaw", 8_000),
    "pcma": ("pcm_alaw", 8_000),
    "g722": ("g722", 16_000),
}


def _open(name: str, mode: str) -> tuple[av.AudioCodecContext, int]:
    codec_name, rate = _FFMPEG[name.lower()]
    codec = av.CodecContext.create(codec_name, mode)
    codec.sample_rate = rate
    codec.layout = "mono"
    codec.format = "s16"
    if mode == "w":
        codec.time_base = Fraction(1, rate)
    return codec, rate


class PcmEncoder:
    """24 kHz mono to payloads."""

    def __init__(self, name: str) -> None:
        self._codec, self._rate = _open(name, "w")
        self._resampler = Resampler(SAMPLE_RATE, self._rate)
        self._pts = 0

    def encode(self, pcm: Pcm) -> bytes:
        narrow = self._resampler.process(pcm)
        samples = np.clip(np.rint(narrow * 32_767), -32_768, 32_767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(samples[None, :], format="s16", layout="mono")
        frame.sample_rate = self._rate
        frame.pts = self._pts
        self._pts += len(samples)
        return b"".join(bytes(packet) for packet in self._codec.encode(frame))

    def expect_loss(self, percent: int) -> None:
        """These codecs carry no redundancy."""


class PcmDecoder:
    """Payloads to 24 kHz mono; gaps are concealed here."""

    def __init__(self, name: str) -> None:
        self._codec, rate = _open(name, "r")
        self._resampler = Resampler(rate, SAMPLE_RATE)
        self._concealer = WaveformConcealer()

    def decode(self, payload: bytes) -> Pcm:
        # An empty packet tells FFmpeg to flush, after which it decodes nothing more.
        if not payload:
            raise CodecError("empty payload")
        try:
            frames = self._codec.decode(av.Packet(payload))
        except av.FFmpegError as error:
            raise CodecError(str(error)) from error
        parts = [frame.to_ndarray()[0].astype(np.float32) / 32_768 for frame in frames]
        narrow = np.concatenate(parts) if parts else np.empty(0, np.float32)
        return self._concealer.received(self._resampler.process(narrow))

    def has_redundancy(self, payload: bytes) -> bool:
        return False

    def recover(self, next_payload: bytes, samples: int) -> Pcm | None:
        return None

    def conceal(self, samples: int) -> Pcm:
        return self._concealer.conceal(samples)
