"""Stereo sound files that grow frame by frame: WAV, or Opus in Ogg."""

from __future__ import annotations

import wave
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import av
import numpy as np

from rtc_agent.call.recorder import Stereo
from rtc_agent.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE

OPUS_BITRATE = 48_000
"""Of both channels together: speech, well understood."""
_SILENCE: Stereo = np.zeros((FRAME_SAMPLES, 2), np.float32)


class SoundFile(Protocol):
    """An open file of 24 kHz stereo. Every method may raise OSError."""

    def write(self, samples: Stereo) -> None: ...

    def close(self) -> None: ...


class WavFile:
    """16-bit PCM."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._wave = wave.open(self._file)  # noqa: SIM115  # closed by close()
        self._wave.setnchannels(2)
        self._wave.setsampwidth(2)
        self._wave.setframerate(SAMPLE_RATE)

    def write(self, samples: Stereo) -> None:
        self._wave.writeframesraw(_int16(samples).tobytes())

    def close(self) -> None:
        try:
            self._wave.close()
        finally:
            self._file.close()


class OggFile:
    """Opus in Ogg (RFC 7845)."""

    def __init__(self, path: Path) -> None:
        self._container = av.open(str(path), "w", format="ogg")
        self._stream = self._container.add_stream("libopus", rate=SAMPLE_RATE, layout="stereo")
        self._stream.bit_rate = OPUS_BITRATE
        self._samples = 0

    def write(self, samples: Stereo) -> None:
        packed = np.ascontiguousarray(_int16(samples).reshape(1, -1))
        frame = av.AudioFrame.from_ndarray(packed, format="s16", layout="stereo")
        frame.sample_rate = SAMPLE_RATE
        frame.pts = self._samples
        frame.time_base = Fraction(1, SAMPLE_RATE)
        self._samples += len(samples)
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        try:
            if self._samples:
                self._container.mux(self._stream.encode(None))
        finally:
            self._container.close()


FORMATS: dict[str, type[WavFile] | type[OggFile]] = {"wav": WavFile, "ogg": OggFile}


def silence(frames: int) -> Stereo:
    return np.tile(_SILENCE, (frames, 1))


def _int16(samples: Stereo) -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    return (np.clip(samples, -1.0, 1.0) * 32_767).astype(np.int16)
