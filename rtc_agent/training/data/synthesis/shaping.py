"""Raw output of a synthesiser to an utterance: trimmed, at 24 kHz, levelled, formants moved."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import scipy.signal

from rtc_agent.training.data.batch import SAMPLE_RATE, Samples

PEAK = 0.7
"""Of every caller's utterance: −3 dBFS."""
_BLOCK = 240
"""10 ms, over which loudness is judged."""
_WANDER = 2_880
"""120 ms, about a syllable's half."""
_LEAD, _TAIL = 240, 720
"""Samples kept before the first and after the last sound."""


def to_24k(samples: Samples, rate: float, formants: float = 1.0) -> Samples:
    """Resample to 24 kHz, played `formants` times as fast and so all frequencies that much higher.

    A synthesiser asked for 1/`formants` of pitch and of tempo thus has its formants moved alone.
    """
    ratio = Fraction(SAMPLE_RATE / (rate * formants)).limit_denominator(160)
    moved = scipy.signal.resample_poly(samples, ratio.numerator, ratio.denominator)
    return np.asarray(moved, np.float32)


def speech_bounds(samples: Samples, threshold_db: float = -34.0) -> tuple[int, int]:
    """First sample of the speech and the one after its last, with little around; equal: none.

    Args:
        threshold_db: of a block against the loudest one, where speech begins and ends.
    """
    blocks = len(samples) // _BLOCK
    loud = np.square(samples[: blocks * _BLOCK].reshape(blocks, _BLOCK)).mean(1)
    if loud.max(initial=0) < 1e-6:
        return 0, 0
    spoken = np.flatnonzero(loud > loud.max() * 10 ** (threshold_db / 10))
    first, last = spoken[0] * _BLOCK - _LEAD, (spoken[-1] + 1) * _BLOCK + _TAIL
    return max(0, int(first)), min(int(last), len(samples))


def trim(samples: Samples) -> Samples:
    """Cut off what lies before and behind the speech; empty when there is none."""
    first, last = speech_bounds(samples)
    return samples[first:last]


def to_peak(samples: Samples, peak: float = PEAK) -> Samples:
    """Scale to a peak."""
    return np.asarray(
        samples * (peak / max(float(np.abs(samples).max(initial=0)), 1e-6)), np.float32
    )


def bent(samples: Samples, rng: np.random.Generator, spread: float = 0.06) -> Samples:
    """Played at a speed that wanders, so that no two renderings have the same lengths of sounds.

    Args:
        spread: standard deviation of the speed's logarithm, drawn anew every 120 ms.
    """
    knots = len(samples) // _WANDER + 2
    speeds = np.exp(rng.normal(0, spread, knots))
    speed = np.interp(np.arange(len(samples)) / _WANDER, np.arange(knots), speeds)
    # Where each sample comes to lie; its inverse says which to take.
    place = np.cumsum(1 / speed)
    taken = np.interp(np.arange(int(place[-1])), place, np.arange(len(samples)))
    return np.asarray(np.interp(taken, np.arange(len(samples)), samples), np.float32)
