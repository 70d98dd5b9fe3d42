"""Opus by libopus itself where it can be loaded, by PyAV otherwise (RFC 6716, RFC 7587)."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media import libopus
from rtc_agent.media.concealment import WaveformConcealer
from rtc_agent.media.resampler import Resampler

DEFAULT_BITRATE = 32_000
"""bit/s; transparent for mono speech."""
COMPLEXITY = 5
"""Of 10. Cost rises by half to 10, for a difference that speech at this rate does not show."""
EXPECTED_LOSS_PERCENT = 10
_STEP = SAMPLE_RATE // 400
"""2.5 ms: the grain of Opus frames."""
_SILK_MS = (10, 20, 40, 60)
_CELT_MS = (2.5, 5, 10, 20)


class CodecError(Exception):
    """A payload that its decoder cannot make sense of."""


def opus_duration(payload: bytes) -> int:
    """Samples at 24 kHz in a packet, read from its first bytes (RFC 6716, 3.1); 0 if malformed."""
    if not payload:
        return 0
    toc = payload[0]
    config, code = toc >> 3, toc & 3
    if config < 12:
        frame_ms: float = _SILK_MS[config & 3]
    elif config < 16:
        frame_ms = _SILK_MS[config & 1]
    else:
        frame_ms = _CELT_MS[config & 3]
    if code == 3:
        frames = payload[1] & 63 if len(payload) > 1 else 0
    else:
        frames = 1 if code == 0 else 2
    samples = int(frames * frame_ms * SAMPLE_RATE / 1000)
    return samples if samples <= libopus.MAX_PACKET_SAMPLES else 0


class OpusDecoder:
    """Concealment and forward error correction by libopus."""

    def __init__(self, decoder: libopus.LibopusDecoder) -> None:
        self._decoder = decoder

    def decode(self, payload: bytes) -> Pcm:
        try:
            return self._decoder.decode(payload)
        except libopus.OpusError as error:
            raise CodecError(str(error)) from error

    def has_redundancy(self, payload: bytes) -> bool:
        return self._decoder.has_redundancy(payload)

    def recover(self, next_payload: bytes, samples: int) -> Pcm | None:
        if samples % _STEP or not self._decoder.has_redundancy(next_payload):
            return None
        try:
            return self._decoder.recover(next_payload, samples)
        except libopus.OpusError:
            return None

    def conceal(self, samples: int) -> Pcm:
        parts = []
        left = -(-samples // _STEP) * _STEP
        while left > 0:
            part = min(left, SAMPLE_RATE // 50)
            parts.append(self._decoder.conceal(part))
            left -= part
        return np.concatenate(parts)[:samples] if parts else np.empty(0, np.float32)


class PyavOpusDecoder:
    """The fallback without libopus: FFmpeg decodes 48 kHz, gaps are faded over."""

    def __init__(self) -> None:
        self._codec = av.CodecContext.create("opus", "r")
        self._codec.sample_rate = 48_000
        self._resampler = Resampler(48_000, SAMPLE_RATE)
        self._concealer = WaveformConcealer()

    def decode(self, payload: bytes) -> Pcm:
        # An empty packet tells FFmpeg to flush, after which it decodes nothing more.
        if not payload:
            raise CodecError("empty payload")
        try:
            frames = self._codec.decode(av.Packet(payload))
        except av.FFmpegError as error:
            raise CodecError(str(error)) from error
        parts = [_to_mono(frame) for frame in frames]
        pcm = np.concatenate(parts) if parts else np.empty(0, np.float32)
        # FFmpeg leaves the encoder's 6.5 ms pre-skip out of the first frame.
        missing = 2 * opus_duration(payload) - len(pcm)
        if missing > 0:
            pcm = np.concatenate([np.zeros(missing, np.float32), pcm])
        return self._concealer.received(self._resampler.process(pcm))

    def has_redundancy(self, payload: bytes) -> bool:
        return False

    def recover(self, next_payload: bytes, samples: int) -> Pcm | None:
        return None

    def conceal(self, samples: int) -> Pcm:
        return self._concealer.conceal(samples)


class PyavOpusEncoder:
    """The fallback without libopus: the same settings through FFmpeg, fixed for the call."""

    def __init__(self, bitrate: int) -> None:
        self._codec = av.CodecContext.create("libopus", "w")
        self._codec.sample_rate = SAMPLE_RATE
        self._codec.layout = "mono"
        self._codec.format = "flt"
        self._codec.bit_rate = bitrate
        self._codec.time_base = Fraction(1, SAMPLE_RATE)
        self._codec.options = {
            "application": "audio",
            "frame_duration": "20",
            "fec": "1",
            "packet_loss": str(EXPECTED_LOSS_PERCENT),
            "compression_level": str(COMPLEXITY),
        }
        self._pts = 0

    def encode(self, pcm: Pcm) -> bytes:
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(pcm, np.float32)[None, :], format="flt", layout="mono"
        )
        frame.sample_rate = SAMPLE_RATE
        frame.pts = self._pts
        self._pts += len(pcm)
        return b"".join(bytes(packet) for packet in self._codec.encode(frame))

    def expect_loss(self, percent: int) -> None:
        """FFmpeg takes this at opening alone."""


def open_encoder(bitrate: int | None = None) -> libopus.LibopusEncoder | PyavOpusEncoder:
    """A mono encoder at 24 kHz. `bitrate` is clamped to what speech can use."""
    chosen = min(max(bitrate or DEFAULT_BITRATE, 8_000), 64_000)
    library = libopus.load()
    if library is None:
        return PyavOpusEncoder(chosen)
    return libopus.LibopusEncoder(
        library,
        bitrate=chosen,
        complexity=COMPLEXITY,
        expected_loss_percent=EXPECTED_LOSS_PERCENT,
    )


def open_decoder() -> OpusDecoder | PyavOpusDecoder:
    """A decoder to mono 24 kHz."""
    library = libopus.load()
    return PyavOpusDecoder() if library is None else OpusDecoder(libopus.LibopusDecoder(library))


def _to_mono(frame: av.AudioFrame) -> Pcm:
    samples = frame.to_ndarray()
    scale = 32_768.0 if samples.dtype == np.int16 else 1.0
    channels = len(frame.layout.channels)
    planes = samples.reshape(-1, channels).T if samples.shape[0] == 1 else samples
    return np.asarray(planes.mean(axis=0, dtype=np.float32) / scale, np.float32)
