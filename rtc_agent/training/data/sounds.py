"""Sounds that are not speech and that no one answers: tones, clicks, breath, doors, music."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from rtc_agent.training.data.batch import SAMPLE_RATE, Samples

_Floats = npt.NDArray[np.float64]
Make = Callable[[np.random.Generator], _Floats]

_DTMF_LOW, _DTMF_HIGH = (697, 770, 852, 941), (1209, 1336, 1477, 1633)


class SoundBank:
    """Sounds made once and drawn again and again.

    Args:
        count: how many are made; at least one of each kind.
    """

    def __init__(self, seed: int, count: int = 480) -> None:
        rng = np.random.default_rng(seed)
        kinds = list(KINDS.values())
        makers = [kinds[i % len(kinds)] for i in range(max(count, len(kinds)))]
        self._sounds = [levelled(make(rng)) for make in makers]

    def draw(self, rng: np.random.Generator) -> Samples:
        """One of them, its peak at 1."""
        return self._sounds[int(rng.integers(len(self._sounds)))]


def levelled(sound: _Floats) -> Samples:
    """With a peak of 1."""
    return np.asarray(sound / max(np.abs(sound).max(), 1e-9), np.float32)


def _time(seconds: float) -> _Floats:
    return np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE


def _tone(seconds: float, *hertz: float) -> _Floats:
    t = _time(seconds)
    ramp = np.minimum(1, np.minimum(t, t[::-1]) / 0.004)
    return np.asarray(ramp * np.sum([np.sin(2 * np.pi * f * t) for f in hertz], axis=0))


def _silence(seconds: float) -> _Floats:
    return np.zeros(int(seconds * SAMPLE_RATE))


def _join(parts: Sequence[_Floats]) -> _Floats:
    return np.concatenate(parts)


def _hiss(
    rng: np.random.Generator, seconds: float, low: float = 0, high: float = SAMPLE_RATE / 2
) -> _Floats:
    """Noise between two frequencies in Hz, with soft edges."""
    count = int(seconds * SAMPLE_RATE)
    spectrum = np.fft.rfft(rng.standard_normal(count))
    f = np.fft.rfftfreq(count, 1 / SAMPLE_RATE)
    spectrum *= 1 / (1 + (low / np.maximum(f, 1)) ** 6) / (1 + (f / high) ** 6)
    return np.fft.irfft(spectrum, count)


def _decay(sound: _Floats, seconds: float) -> _Floats:
    """Fall by 60 dB within `seconds`."""
    return np.asarray(sound * np.exp(-6.9 * np.arange(len(sound)) / (seconds * SAMPLE_RATE)))


def _swell(sound: _Floats) -> _Floats:
    return np.asarray(sound * np.hanning(len(sound)))


def _repeat(
    rng: np.random.Generator, make: Callable[[], _Floats], times: int, gap: tuple[float, float]
) -> _Floats:
    """The same kind of sound at uneven distances in seconds."""
    parts: list[_Floats] = []
    for _ in range(times):
        parts += [make() * rng.uniform(0.4, 1), _silence(rng.uniform(*gap))]
    return _join(parts)


def _steady_tone(rng: np.random.Generator) -> _Floats:
    return _tone(rng.uniform(0.2, 2.5), float(np.exp(rng.uniform(np.log(150), np.log(4000)))))


def _beeps(rng: np.random.Generator) -> _Floats:
    hertz, length = rng.uniform(400, 3000), rng.uniform(0.05, 0.3)
    gap = rng.uniform(0.05, 0.4)
    return _repeat(rng, lambda: _tone(length, hertz), int(rng.integers(1, 7)), (gap, gap + 0.01))


def _dtmf(rng: np.random.Generator) -> _Floats:
    length = rng.uniform(0.06, 0.25)
    return _repeat(
        rng,
        lambda: _tone(length, float(rng.choice(_DTMF_LOW)), float(rng.choice(_DTMF_HIGH))),
        int(rng.integers(1, 9)),
        (0.04, 0.3),
    )


def _ring_back(rng: np.random.Generator) -> _Floats:
    pair = ((440.0, 480.0), (400.0, 450.0), (425.0,))[int(rng.integers(3))]
    length = rng.uniform(0.4, 2.0)
    return _repeat(rng, lambda: _tone(length, *pair), int(rng.integers(1, 3)), (0.2, 1.0))


def _busy(rng: np.random.Generator) -> _Floats:
    return _repeat(rng, lambda: _tone(0.4, 480, 620), int(rng.integers(1, 5)), (0.35, 0.5))


def _sweep(rng: np.random.Generator) -> _Floats:
    t = _time(rng.uniform(0.1, 1.5))
    first, last = np.exp(rng.uniform(np.log(150), np.log(4000), 2))
    phase = np.cumsum(np.geomspace(first, last, len(t))) / SAMPLE_RATE
    return np.hanning(len(t)) ** 0.3 * np.sin(2 * np.pi * phase)


def _note(rng: np.random.Generator, hertz: float, seconds: float) -> _Floats:
    partials = [hertz * k for k in range(1, int(rng.integers(2, 7))) if hertz * k < 9000]
    t = _time(seconds)
    body = np.sum([np.sin(2 * np.pi * f * t) / k for k, f in enumerate(partials, 1)], axis=0)
    return _decay(body, rng.uniform(0.5, 3)) * np.minimum(1, t / 0.01)


def _chords(rng: np.random.Generator) -> _Floats:
    root = rng.uniform(110, 330)
    scale = 2 ** (np.array([0, 2, 4, 5, 7, 9, 11, 12]) / 12)
    parts = []
    for _ in range(int(rng.integers(2, 7))):
        length = rng.uniform(0.15, 0.8)
        notes = rng.choice(scale, int(rng.integers(1, 4)), replace=False)
        parts.append(np.sum([_note(rng, root * ratio, length) for ratio in notes], axis=0))
    return _join(parts)


def _drum(rng: np.random.Generator) -> _Floats:
    def beat() -> _Floats:
        low = _decay(_tone(0.25, rng.uniform(50, 120)), rng.uniform(0.1, 0.3))
        return low + 0.4 * _decay(_hiss(rng, 0.25, 200), 0.08)

    return _repeat(rng, beat, int(rng.integers(1, 6)), (0.1, 0.5))


def _breath(rng: np.random.Generator) -> _Floats:
    return _swell(_hiss(rng, rng.uniform(0.3, 1.5), rng.uniform(200, 900), rng.uniform(2000, 6000)))


def _click(rng: np.random.Generator) -> _Floats:
    def tick() -> _Floats:
        return _decay(_hiss(rng, 0.03, rng.uniform(100, 3000)), rng.uniform(0.003, 0.03))

    return _repeat(rng, tick, int(rng.integers(1, 5)), (0.05, 0.6))


def _keyboard(rng: np.random.Generator) -> _Floats:
    def key() -> _Floats:
        down = _decay(_hiss(rng, 0.04, 800, 6000), 0.02)
        return _join([down, _silence(rng.uniform(0.03, 0.08)), 0.4 * _decay(down, 0.02)])

    return _repeat(rng, key, int(rng.integers(2, 14)), (0.02, 0.25))


def _cough(rng: np.random.Generator) -> _Floats:
    def burst() -> _Floats:
        hoarse = _hiss(rng, rng.uniform(0.12, 0.35), 150, rng.uniform(1200, 4000))
        turns = rng.uniform(90, 260) * np.arange(len(hoarse)) / SAMPLE_RATE
        pulse = np.sign(np.sin(2 * np.pi * turns))
        body = _decay(hoarse * (1 + 0.5 * pulse), rng.uniform(0.2, 0.5))
        return body * np.minimum(1, np.arange(len(body)) / 200)

    return _repeat(rng, burst, int(rng.integers(1, 4)), (0.05, 0.4))


def _door(rng: np.random.Generator) -> _Floats:
    thump = _decay(_hiss(rng, 0.5, 30, rng.uniform(120, 500)), rng.uniform(0.15, 0.5))
    return _join([thump, _silence(rng.uniform(0, 0.2)), 0.3 * _decay(_hiss(rng, 0.2, 800), 0.05)])


def _knock(rng: np.random.Generator) -> _Floats:
    hertz = rng.uniform(120, 500)
    return _repeat(
        rng, lambda: _decay(_tone(0.1, hertz), 0.06), int(rng.integers(2, 6)), (0.08, 0.3)
    )


def _hum(rng: np.random.Generator) -> _Floats:
    mains = float(rng.choice([50, 60, 100, 120]))
    return _swell(_tone(rng.uniform(1, 4), *(mains * k for k in (1, 2, 3, 5))))


def _rustle(rng: np.random.Generator) -> _Floats:
    sound = _hiss(rng, rng.uniform(0.3, 1.5), 1500)
    steps = np.repeat(rng.random(len(sound) // 400 + 1) ** 3, 400)[: len(sound)]
    return _swell(sound * steps)


def _wind(rng: np.random.Generator) -> _Floats:
    return _swell(_hiss(rng, rng.uniform(0.5, 3), 30, rng.uniform(200, 600)))


def _clap(rng: np.random.Generator) -> _Floats:
    def hands() -> _Floats:
        return _decay(_hiss(rng, 0.12, 600, 5000), rng.uniform(0.04, 0.12))

    return _repeat(rng, hands, int(rng.integers(1, 7)), (0.1, 0.4))


def _whistle(rng: np.random.Generator) -> _Floats:
    t = _time(rng.uniform(0.3, 1.5))
    wander = rng.uniform(900, 2000) * (1 + 0.2 * np.sin(2 * np.pi * rng.uniform(0.3, 3) * t))
    return np.hanning(len(t)) ** 0.4 * np.sin(2 * np.pi * np.cumsum(wander) / SAMPLE_RATE)


KINDS: dict[str, Make] = {
    **{"tone": _steady_tone, "beeps": _beeps, "dtmf": _dtmf, "ring-back": _ring_back},
    **{"busy": _busy, "sweep": _sweep, "chords": _chords, "drum": _drum, "breath": _breath},
    **{"click": _click, "keyboard": _keyboard, "cough": _cough, "door": _door, "knock": _knock},
    **{"hum": _hum, "rustle": _rustle, "wind": _wind, "clap": _clap, "whistle": _whistle},
}
"""Every kind of sound by name."""
