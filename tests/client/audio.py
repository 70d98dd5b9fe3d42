from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

Pcm = npt.NDArray[np.float32]


SPEECH = Path(__file__).parent.parent / "data" / "speech.wav"


def speech(seconds: float, rate: int = 24_000) -> Pcm:
    """The beginning of the spoken test file."""
    pcm = load_wav(SPEECH)
    at = np.arange(round(seconds * rate)) * 24_000 / rate
    return np.interp(at, np.arange(len(pcm)), pcm).astype(np.float32)


def save_wav(path: Path, pcm: Pcm, rate: int = 24_000) -> Path:
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes((np.clip(pcm, -1, 1) * 32767).astype("<i2").tobytes())
    return path


def load_wav(path: Path) -> Pcm:
    with wave.open(str(path), "rb") as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        raw = file.readframes(file.getnframes())
    return np.frombuffer(raw, "<i2").astype(np.float32) / 32768


def best_match(sent: Pcm, heard: Pcm) -> tuple[float, int]:
    """Normalised cross-correlation at its peak, and the delay in samples there."""
    size = 1 << (len(sent) + len(heard)).bit_length()
    product = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(sent, size)), size)
    delay = int(np.argmax(product[: len(heard)]))
    overlap = sent[: len(heard) - delay]
    part = heard[delay : delay + len(overlap)]
    return float(overlap @ part / np.linalg.norm(overlap) / np.linalg.norm(part)), delay
