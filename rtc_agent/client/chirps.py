"""Probe signal: distinct frequency-hopping chirps over a quiet pilot tone, and finding them again.

Ten chirps that hardly correlate with each other follow in turn, so that a chirp found in returned
audio belongs to exactly one that was sent, unless it comes ten periods late. The hops are linear
congruential codes (E. L. Titlebaum, "Time-frequency hop signals", 1981): any two of them agree in
at most one hop at any shift. All of it lies between 500 and 3,200 Hz, inside a telephone's band.

The pilot sounds under and between the chirps, but for short pauses such as speech has, in which a
server may catch up. Where the returned audio falls silent outside of them, sound was missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Pcm = npt.NDArray[np.float32]

CODES = 10
_PRIME = CODES + 1
_HOP_S = 0.01
_LOWEST_HZ, _SPACING_HZ = 600.0, 270.0
_EDGE_S = 0.003
_HIGH_PASS_HZ = 500.0
_PILOT_HZ = 400.0
_PHRASE, _PHRASE_PAUSES = 5, 2
CHIRP_S = CODES * _HOP_S
"""Length of a chirp in seconds."""
CHIRP_LEVEL = 0.3
PILOT_LEVEL = 0.03
_FFT = 1 << 15
_MARGIN_S = 0.04
"""What filtering a piece of audio by itself spoils at either end."""
FOUND_CORRELATION = 0.4
"""Normalised correlation from which a chirp counts as found. Different chirps reach 0.2; two passes
through Opus leave 0.65, a packet concealed within one takes off little more."""


def hops(code: int) -> tuple[int, ...]:
    """The order of the ten tones in chirp `code` (0 … 9), each tone used once."""
    return tuple((code + 1) * slot % _PRIME - 1 for slot in range(1, _PRIME))


@lru_cache(maxsize=64)
def chirp(code: int, rate: int) -> Pcm:
    """Chirp `code` at `rate` Hz with unit amplitude, phase-continuous, with soft edges."""
    hop = round(_HOP_S * rate)
    hertz = np.repeat(_LOWEST_HZ + _SPACING_HZ * np.array(hops(code), dtype=np.float64), hop)
    wave = np.sin(2 * np.pi * np.cumsum(hertz) / rate)
    edge = round(_EDGE_S * rate)
    ramp = np.sin(np.linspace(0, np.pi / 2, edge)) ** 2
    wave[:edge] *= ramp
    wave[-edge:] *= ramp[::-1]
    wave.flags.writeable = False
    return wave.astype(np.float32)


@dataclass(frozen=True, slots=True)
class ProbeSignal:
    """An endless probe signal; any stretch of it can be asked for.

    The period is no multiple of a packet or a frame, so that chirps meet every phase of both.
    """

    rate: int
    """Hz."""
    period_s: float = 0.413
    lead_s: float = 0.5
    pilot: bool = True

    def start_s(self, index: int) -> float:
        """When chirp number `index` begins, in seconds of the signal (to the sample)."""
        return round((self.lead_s + index * self.period_s) * self.rate) / self.rate

    def count(self, duration_s: float) -> int:
        """How many whole chirps the first `duration_s` seconds hold."""
        return max(0, int((duration_s - self.lead_s - CHIRP_S) / self.period_s) + 1)

    @property
    def longest_delay_s(self) -> float:
        """A chirp later than this could be taken for a following one of the same code."""
        return (CODES - 1) * self.period_s

    def pauses(self, index: int) -> bool:
        """Whether the pilot pauses between the chirp before number `index` and that one."""
        return index % _PHRASE < _PHRASE_PAUSES

    def samples(self, first: int, count: int) -> Pcm:
        """Samples `first` … `first + count` of the signal, [count] float32."""
        out = np.zeros(count, dtype=np.float32)
        if self.pilot:
            phase = 2 * np.pi * _PILOT_HZ / self.rate * np.arange(first, first + count)
            out += (PILOT_LEVEL * np.sin(phase) * self._sounding(first, count)).astype(np.float32)
        length = len(chirp(0, self.rate))
        index = max(0, int(((first - length) / self.rate - self.lead_s) / self.period_s))
        while (start := round(self.start_s(index) * self.rate)) < first + count:
            begin, end = max(start, first), min(start + length, first + count)
            if begin < end:
                wave = chirp(index % CODES, self.rate)[begin - start : end - start]
                out[begin - first : end - first] += CHIRP_LEVEL * wave
            index += 1
        return out

    def _sounding(self, first: int, count: int) -> npt.NDArray[np.bool_]:
        """Where the pilot is on."""
        at = np.arange(first, first + count)
        # The gap before chirp n belongs to it; half a sample keeps rounding out of it.
        index = np.ceil(((at + 0.5) / self.rate - self.lead_s) / self.period_s).astype(np.int64)
        since_chirp_s = (at + 0.5) / self.rate - self.lead_s - (index - 1) * self.period_s
        paused = (index <= 0) | ((index % _PHRASE < _PHRASE_PAUSES) & (since_chirp_s > CHIRP_S))
        return ~paused


def locate(pcm: Pcm, signal: ProbeSignal, chirps: int) -> list[float | None]:
    """Where each of the first `chirps` chirps begins in `pcm`, in seconds; None where it is not.

    `pcm` is at the signal's rate and its sample 0 belongs to the moment the signal's sample 0 was
    said; a chirp is looked for from that moment to `longest_delay_s` later.
    """
    length = len(chirp(0, signal.rate))
    starts = len(pcm) - length + 1
    best = [FOUND_CORRELATION] * chirps
    found: list[float | None] = [None] * chirps
    windows = []
    for index in range(chirps):
        first = round(signal.start_s(index) * signal.rate)
        windows.append((first, first + round(signal.longest_delay_s * signal.rate)))
    begin = 0
    for at, scores in _scores(pcm, signal.rate, starts, min(CODES, chirps)):
        end = at + scores.shape[1]
        while begin < chirps and windows[begin][1] <= at:
            begin += 1
        for index in range(begin, chirps):
            first, last = max(windows[index][0], at), min(windows[index][1], end)
            if windows[index][0] >= end:
                break
            window = scores[index % CODES, first - at : last - at]
            if len(window) == 0 or window[peak := int(np.argmax(window))] < best[index]:
                continue
            best[index] = float(window[peak])
            found[index] = (first + _vertex(window, peak)) / signal.rate
    return found


def _scores(
    pcm: Pcm, rate: int, starts: int, codes: int
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Normalised correlation with every code's chirp, piece by piece: a place, and [codes, n] for
    the chirps that would begin from there on. Pieces fit a processor's cache and meet end to end.
    """
    waves = [_high_pass(chirp(code, rate), rate) for code in range(codes)]
    length, margin = len(chirp(0, rate)), round(_MARGIN_S * rate)
    norms = np.array([np.linalg.norm(wave) for wave in waves], np.float32)[:, None]
    mirrored = np.conj(np.fft.rfft(np.array(waves, np.float32), _FFT)) / norms
    step = _FFT - length - 2 * margin + 1
    # Near-silence must not make noise look like a match.
    floor = 1e-3 * np.sqrt(length)
    for at in range(0, starts, step):
        piece = np.zeros(_FFT, np.float32)
        first, last = max(0, at - margin), min(len(pcm), at - margin + _FFT)
        piece[first - (at - margin) : last - (at - margin)] = pcm[first:last]
        spectrum = np.fft.rfft(piece)
        spectrum[: int(_HIGH_PASS_HZ * _FFT / rate)] = 0
        count = min(step, starts - at)
        audio = np.fft.irfft(spectrum, _FFT)[margin : margin + count + length - 1]
        energy = np.concatenate(([0.0], np.cumsum(audio.astype(np.float64) ** 2)))
        local = np.sqrt(np.maximum(energy[length:] - energy[:count], 0.0))
        products = np.fft.irfft(spectrum * mirrored, _FFT)[:, margin : margin + count]
        yield at, products * (1 / np.maximum(local, floor)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Dropout:
    """A stretch of the returned audio where even the pilot is missing, in seconds of it."""

    start_s: float
    length_s: float


def dropouts(
    pcm: Pcm, signal: ProbeSignal, places: Sequence[float | None], *, shortest_s: float = 0.01
) -> list[Dropout]:
    """Stretches of at least `shortest_s` where sound is missing between the first and last chirp.

    `places` are the chirps' as `locate` gives them for the same audio: a pause is right between
    the two chirps that it lies between, wherever those came. A lost chirp is taken to have come
    as late as the one before.
    """
    bounds = _expected(signal, places)
    if not signal.pilot or len(bounds) == 0:
        return []
    rate = signal.rate
    holes = []
    for hole in _quiet(pcm, rate):
        end_s = hole.start_s + hole.length_s
        if hole.length_s < shortest_s or end_s <= bounds[0] or hole.start_s >= bounds[-1]:
            continue
        index = int(np.searchsorted(bounds, hole.start_s + hole.length_s / 2))
        pause_begins_s = bounds[min(index, len(bounds) - 1) - 1] + CHIRP_S if index else 0.0
        if signal.pauses(index) and hole.start_s > pause_begins_s - _PAUSE_MARGIN_S:
            continue
        holes.append(hole)
    return holes


_PAUSE_MARGIN_S = 0.03
"""Codecs soften the edges of a pause by about this much."""


def _expected(signal: ProbeSignal, places: Sequence[float | None]) -> npt.NDArray[np.float64]:
    """Where each chirp begins in the returned audio, in seconds; rising."""
    known = [p - signal.start_s(i) for i, p in enumerate(places) if p is not None]
    if not known:
        return np.zeros(0)
    delay_s, bounds = known[0], []
    for index, place in enumerate(places):
        if place is not None:
            delay_s = place - signal.start_s(index)
        bounds.append(signal.start_s(index) + delay_s)
    return np.maximum.accumulate(np.array(bounds))


def _quiet(pcm: Pcm, rate: int) -> list[Dropout]:
    """Every stretch that is much quieter than the pilot and lies between two sounds."""
    hop, window = round(0.0025 * rate), round(0.01 * rate)
    if len(pcm) < window:
        return []
    energy = np.concatenate(([0.0], np.cumsum(pcm.astype(np.float64) ** 2)))
    at = np.arange(0, len(pcm) - window + 1, hop)
    level = np.sqrt(np.maximum(energy[at + window] - energy[at], 0.0) / window)
    loud = level > 0.35 * PILOT_LEVEL / np.sqrt(2)
    if not loud.any():
        return []
    first, last = int(np.argmax(loud)), len(loud) - 1 - int(np.argmax(loud[::-1]))
    edges = np.flatnonzero(np.diff(loud[first : last + 1].astype(np.int8)))
    holes = []
    for begin, end in zip(edges[0::2], edges[1::2], strict=True):
        # A window is quiet only when all of it is: the hole is a window longer than the run.
        start = (first + int(begin) + 1) * hop
        length = (int(end) - int(begin) - 1) * hop + window
        holes.append(Dropout(start / rate, length / rate))
    return holes


def _high_pass(pcm: Pcm, rate: int) -> npt.NDArray[np.float64]:
    spectrum = np.fft.rfft(pcm.astype(np.float64))
    spectrum[: int(_HIGH_PASS_HZ * len(pcm) / rate)] = 0
    return np.fft.irfft(spectrum, len(pcm))


def _vertex(values: npt.NDArray[np.float32], peak: int) -> float:
    """The maximum's place between samples, from a parabola through three values."""
    if not 0 < peak < len(values) - 1:
        return float(peak)
    before, top, after = map(float, values[peak - 1 : peak + 2])
    bend = before - 2 * top + after
    return peak + (0.5 * (before - after) / bend if bend < 0 else 0.0)
