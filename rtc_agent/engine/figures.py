"""What an engine counts and measures of its ticks, steps and openings."""

from __future__ import annotations

import bisect
import collections
from collections.abc import Iterable, Sequence

import numpy as np

from rtc_agent.engine.client import STEP_BUCKETS_MS, EngineStatus

STEP_HISTORY = 1_000
"""Steps that percentiles look back on: 80 s of them."""
OPEN_HISTORY = 200
"""Prepared sessions that they look back on."""


class EngineFigures:
    """Figures of one engine since it was made."""

    def __init__(self) -> None:
        self.ticks = 0
        """Ticks with a step."""
        self.skipped = 0
        self.lost_frames = 0
        self.longest_piece_s = 0.0
        self.step_s: collections.deque[float] = collections.deque(maxlen=STEP_HISTORY)
        self.open_s: collections.deque[float] = collections.deque(maxlen=OPEN_HISTORY)
        """Work that preparing a session took."""
        self.step_counts = [0] * (len(STEP_BUCKETS_MS) + 1)
        self.step_ms_sum = 0.0

    def note_step(self, took_s: float) -> None:
        self.step_s.append(took_s)
        self.step_counts[bisect.bisect_left(STEP_BUCKETS_MS, took_s * 1e3)] += 1
        self.step_ms_sum += took_s * 1e3


def status_of(
    figures: Sequence[EngineFigures], failure: str, slots: int, slots_free: int
) -> EngineStatus:
    """How engines do that share a device, each with its own figures."""
    # Copied at one go: threads ask, too, and a deque that grows meanwhile cannot be walked through.
    p50, p99 = percentiles_ms(took for each in figures for took in tuple(each.step_s))
    open_p50, open_p99 = percentiles_ms(took for each in figures for took in tuple(each.open_s))
    return EngineStatus(
        ready=not failure,
        detail=failure,
        slots=slots,
        slots_free=slots_free,
        ticks=sum(each.ticks for each in figures),
        skipped_ticks=sum(each.skipped for each in figures),
        step_ms_p50=p50,
        step_ms_p99=p99,
        open_ms_p50=open_p50,
        open_ms_p99=open_p99,
        piece_ms_max=round(1e3 * max(each.longest_piece_s for each in figures), 3),
        step_counts=tuple(map(sum, zip(*(each.step_counts for each in figures), strict=True))),
        step_ms_sum=sum(each.step_ms_sum for each in figures),
        lost_frames=sum(each.lost_frames for each in figures),
        banks=len(figures),
    )


def percentiles_ms(seconds: Iterable[float]) -> tuple[float, float]:
    """Median and 99th percentile in milliseconds; 0 of nothing."""
    values = np.array([1e3 * s for s in seconds] or [0.0])
    p50, p99 = np.percentile(values, (50, 99))
    return round(float(p50), 3), round(float(p99), 3)
