"""WAV files in and out, a block at a time: 24 kHz mono float inside, whatever the file holds.

Memory does not grow with the file. Any encoding that FFmpeg reads from a WAV is taken (A-law and
µ-law, 8 to 64 bit integer and float, any rate and number of channels, RF64, unknown chunks, the
unfinished headers that programs leave when they write into a pipe).
"""

from __future__ import annotations

import errno
import os
import struct
import wave
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import av
import numpy as np

from rtc_agent.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE, Pcm
from rtc_agent.errors import BadAudioFile

_RIFF_IDS = (b"RIFF", b"RIFX", b"RF64", b"BW64")
_FULL_SCALE = 32_768.0


class WavReader:
    """One WAV file as 24 kHz mono samples in −1 … 1; a context manager, read once.

    Channels are averaged. Samples that are not a number become silence, louder ones than full
    scale are clipped: a model's state must not take them in.

    Raises:
        BadAudioFile: no such file, not a WAV, or a damaged one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.samples = 0
        """24 kHz samples given so far; after the last one, round(length · 24,000 / rate)."""
        self._container = None
        try:
            with path.open("rb") as file:
                _require_wave(path, file)
                self._empty = _has_empty_data(file)
            if not self._empty:
                self._container = av.open(str(path), format="wav")
        except FileNotFoundError:
            raise BadAudioFile(f"There is no file {path}.") from None
        except av.FFmpegError as error:
            raise BadAudioFile(f"{path} is a damaged WAV file: {error.strerror}.") from None
        except OSError as error:
            raise BadAudioFile(f"{path} cannot be read: {error.strerror}.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        if self._container is not None:
            self._container.close()
            self._container = None

    @property
    def expected_samples(self) -> int | None:
        """24 kHz samples that the header promises, for a progress bar; None if it does not say."""
        if self._empty:
            return 0
        if self._container is None or not self._container.duration:
            return None
        seconds: float = self._container.duration / av.time_base
        return round(seconds * SAMPLE_RATE)

    def blocks(self) -> Iterator[Pcm]:
        """Every sample once, in blocks of any length above zero."""
        if self._container is None:
            return
        resampler = av.AudioResampler(format="flt", rate=SAMPLE_RATE)
        taken, rate = 0, SAMPLE_RATE
        try:
            for decoded in self._container.decode(audio=0):
                taken, rate = taken + decoded.samples, decoded.sample_rate
                for frame in resampler.resample(decoded):
                    yield self._count(_mono(frame))
            due = round(taken * SAMPLE_RATE / rate) - self.samples
            flushed = resampler.resample(None) if taken else []
        except av.FFmpegError as error:
            raise BadAudioFile(f"{self._path} is a damaged WAV file: {error.strerror}.") from None
        tail = np.concatenate([np.zeros(0, np.float32), *map(_mono, flushed)])
        # A resampler's flush may be a sample or two off the exact length.
        tail = np.pad(tail[:due], (0, max(0, due - len(tail))))
        if len(tail):
            yield self._count(tail)

    def frames(self) -> Iterator[Pcm]:
        """Every sample once, as [1920] frames; the last one is padded with silence."""
        held = np.zeros(0, np.float32)
        for block in self.blocks():
            held = np.concatenate([held, block])
            whole = len(held) // FRAME_SAMPLES * FRAME_SAMPLES
            yield from held[:whole].reshape(-1, FRAME_SAMPLES)
            held = held[whole:]
        if len(held):
            yield np.pad(held, (0, FRAME_SAMPLES - len(held)))

    def _count(self, block: Pcm) -> Pcm:
        self.samples += len(block)
        return block


def require_samples(pieces: Iterator[Pcm], path: Path) -> Iterator[Pcm]:
    """A file's blocks or frames, as they are; the first one is read at once.

    Raises:
        BadAudioFile: there is none.
    """
    first = next(pieces, None)
    if first is None:
        raise BadAudioFile(f"{path} holds no samples.")
    return chain((first,), pieces)


class WavWriter:
    """A 24 kHz mono 16-bit WAV file that appears under its name once it is whole.

    A context manager: when the block ends with an error, nothing is left behind. A link is
    followed, and what is no file, such as `/dev/null`, is written to and not replaced.

    Raises:
        BadAudioFile: the file cannot be written there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        target = path.resolve()
        self._target = target
        is_device = target.exists() and not target.is_file() and not target.is_dir()
        self._part = None if is_device else target.with_name(target.name + ".part")
        try:
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._file = (self._part or target).open("wb")
        except OSError as error:
            raise BadAudioFile(f"{path} cannot be written: {error.strerror}.") from None
        self._wave = wave.open(self._file, "wb")
        self._wave.setnchannels(1)
        self._wave.setsampwidth(2)
        self._wave.setframerate(SAMPLE_RATE)

    def write(self, pcm: Pcm) -> None:
        """Append samples in −1 … 1; louder ones are clipped."""
        scaled = np.clip(np.rint(pcm * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1)
        try:
            self._wave.writeframesraw(scaled.astype("<i2").tobytes())
        except OSError as error:
            raise BadAudioFile(f"{self._path} cannot be written: {error.strerror}.") from None

    def discard(self) -> None:
        """Close it, and leave nothing behind."""
        self._close(keep=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(keep=kind is None)

    def _close(self, *, keep: bool) -> None:
        try:
            self._wave.close()
            self._file.close()
            if keep and self._part is not None:
                self._part.replace(self._target)
        except OSError as failure:
            if keep:
                raise BadAudioFile(
                    f"{self._path} cannot be written: {failure.strerror}."
                ) from failure
        finally:
            self._file.close()
            if self._part is not None:
                self._part.unlink(missing_ok=True)


def require_writable(path: Path) -> None:
    """A `WavWriter` can write there; nothing is left behind.

    Raises:
        BadAudioFile: it cannot.
    """
    WavWriter(path).discard()


def read_wav(path: Path, max_seconds: float) -> Pcm:
    """A short WAV file as a whole, 24 kHz mono.

    Raises:
        BadAudioFile: not a WAV, damaged, or longer than `max_seconds`.
    """
    blocks = [np.zeros(0, np.float32)]
    with WavReader(path) as reader:
        for block in reader.blocks():
            blocks.append(block)
            if reader.samples > max_seconds * SAMPLE_RATE:
                raise BadAudioFile(f"{path} is longer than the {max_seconds:g} s that are taken.")
    return np.concatenate(blocks)


def _mono(frame: av.AudioFrame) -> Pcm:
    """Packed float samples of any number of channels → [samples]."""
    # Packed and not planar: PyAV 18's to_ndarray reads past the end of planar frames of eight
    # channels and more. Planar can come back when that is mended there.
    channels = frame.to_ndarray().reshape(frame.samples, -1)
    mixed: Pcm = channels.mean(axis=1, dtype=np.float32)
    mixed = np.nan_to_num(mixed, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return np.clip(mixed, -1.0, 1.0)


def _require_wave(path: Path, file: BinaryIO) -> None:
    head = file.read(12)
    if head[:4] not in _RIFF_IDS or head[8:] != b"WAVE":
        raise BadAudioFile(f"{path} is not a WAV file; convert it to one first.")


def _has_empty_data(file: BinaryIO) -> bool:
    """Whether the file has a finished header and no sample.

    FFmpeg takes a data length of zero for a header that was never finished, and would play the
    chunks behind it. A finished header is one whose outer length is the file's.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    number = "<I" if file.read(4) != b"RIFX" else ">I"
    outer = struct.unpack(number, file.read(4))[0] + 8
    position, has_format = 12, False
    while position + 8 <= size:
        file.seek(position)
        name = file.read(4)
        length = struct.unpack(number, file.read(4))[0]
        if name == b"data":
            return length == 0 and (outer == size or position + 8 == size)
        has_format |= name == b"fmt "
        position += 8 + length + length % 2
    return has_format and position == size
