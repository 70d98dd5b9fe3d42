"""A caller and its network in virtual time: what is sent, when it arrives, what a tick hears."""

from __future__ import annotations

import wave
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, Pcm
from rtc_agent.media.audio_receiver import AudioReceiver
from rtc_agent.media.codecs import CODECS, encoder_for


@dataclass
class WirePacket:
    """As much of an RTP packet as the receive path looks at."""

    sequence_number: int
    timestamp: int
    payload: bytes
    payload_type: int = 96
    ssrc: int = 1
    marker: int = 0


PAYLOAD_TYPES = {"opus": 96, "G722": 9, "PCMU": 0, "PCMA": 8}
RECEIVED = {pt: CODECS[name.lower()] for name, pt in PAYLOAD_TYPES.items()}


def noise(seconds: float, seed: int = 1, level: float = 0.2) -> Pcm:
    """Speech-band noise: every moment of it is told apart by correlation."""
    rng = np.random.default_rng(seed)
    white = rng.standard_normal(round(seconds * SAMPLE_RATE)).astype(np.float32)
    smooth = np.convolve(white, np.hanning(15) / np.hanning(15).sum(), mode="same")
    return np.asarray(level * smooth / np.std(smooth), np.float32)


def read_speech() -> Pcm:
    """The speech of tests/data: [n] at 24 kHz, cut to whole packets."""
    path = Path(__file__).parents[1] / "data" / "speech.wav"
    with wave.open(str(path)) as file:
        assert file.getframerate() == SAMPLE_RATE and file.getnchannels() == 1
        pcm = np.frombuffer(file.readframes(-1), np.int16)
    return pcm[: len(pcm) // 480 * 480].astype(np.float32) / 32_768


def send(
    pcm: Pcm,
    codec: str = "PCMU",
    *,
    sequence: int = 100,
    timestamp: int = 5_000,
    start_s: float = 0.0,
    clock_ppm: float = 0.0,
    ssrc: int = 1,
) -> list[tuple[float, WirePacket]]:
    """20 ms packets of a signal, each with the time it is sent: the end of its audio."""
    encoder, info = encoder_for(codec), CODECS[codec.lower()]
    step = info.timestamp_step
    sent = []
    for i in range(len(pcm) // 480):
        packet = WirePacket(
            (sequence + i) % 65_536,
            (timestamp + i * step) % 2**32,
            encoder.encode(pcm[i * 480 : (i + 1) * 480]),
            PAYLOAD_TYPES[codec],
            ssrc,
        )
        sent.append((start_s + (i + 1) * 0.02 / (1 + clock_ppm * 1e-6), packet))
    return sent


def hear(
    receiver: AudioReceiver,
    arrivals: Iterable[tuple[float, WirePacket]],
    ticks: int,
    *,
    first_tick_s: float = 0.047,
    at_tick: Callable[[int, float, Pcm], None] | None = None,
) -> Pcm:
    """Deliver packets in order of arrival and read one frame a tick."""
    waiting = sorted(arrivals, key=lambda a: a[0])
    heard = []
    at = 0
    for tick in range(ticks):
        now = first_tick_s + tick * FRAME_S
        while at < len(waiting) and waiting[at][0] <= now:
            receiver.push(waiting[at][1], waiting[at][0])
            at += 1
        frame = receiver.read(FRAME_SAMPLES, now)
        assert frame.shape == (FRAME_SAMPLES,)
        assert np.isfinite(frame).all()
        heard.append(frame)
        if at_tick is not None:
            at_tick(tick, now, frame)
    return np.concatenate(heard)


def delay_of(heard: Pcm, source: Pcm, at: int, length: int = 4_800, most: int = 24_000) -> int:
    """Samples by which `heard` lags `source` around sample `at` of it; negative if it leads."""
    piece = heard[at : at + length]
    low = max(0, at - most)
    window = source[low : at + length + 2_400]
    if len(window) < length or len(piece) < length:
        raise ValueError("too near the edge")
    spectrum = np.fft.rfft(window, 2 * len(window))
    match = np.fft.irfft(spectrum * np.conj(np.fft.rfft(piece, 2 * len(window))))
    match = match[: len(window) - length + 1]
    energy = np.convolve(window**2, np.ones(length, np.float32), mode="valid")
    return at - (low + int(np.argmax(match / np.sqrt(energy + 1e-9))))


def similarity(heard: Pcm, source: Pcm, delay: int) -> float:
    """Normalised correlation of `heard` with what `source` was a delay earlier."""
    low = max(0, delay)
    b = source[low - delay : len(heard) - delay]
    a = heard[low : low + len(b)]
    b = b[: len(a)]
    return float(np.dot(a, b) / np.sqrt(np.dot(a, a) * np.dot(b, b) + 1e-12))
