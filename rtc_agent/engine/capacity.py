"""How many calls this device can hold: a full tick is timed before the first one is taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from rtc_agent.engine.stepper import FRAME_S
from rtc_agent.errors import TooSlow

BUDGET_MS = 1e3 * FRAME_S
"""What a tick may take at its 99th percentile."""
TICKS = 60
_WARM_UP = 5


@dataclass(frozen=True, slots=True)
class TickTimes:
    """Milliseconds of a tick with every session live and its window full."""

    sessions: int
    p50: float
    p99: float


class Measurable(Protocol):
    """A stepper whose tick can be timed before anybody is there."""

    @property
    def slots(self) -> int: ...

    def rehearse(self) -> None:
        """One tick as long as any can be, leaving nothing in the slots."""
        ...

    def shutdown(self) -> None: ...


S = TypeVar("S", bound=Measurable)


def tick_times(stepper: Measurable, ticks: int = TICKS) -> TickTimes:
    """Time a stepper's longest tick."""
    times = []
    for _ in range(_WARM_UP + ticks):
        began = time.perf_counter()
        stepper.rehearse()
        times.append(1e3 * (time.perf_counter() - began))
    p50, p99 = np.percentile(times[_WARM_UP:], (50, 99))
    return TickTimes(stepper.slots, round(float(p50), 3), round(float(p99), 3))


def fitting_stepper(
    make: Callable[[int], S],
    sessions: int,
    measure: Callable[[Measurable], TickTimes] = tick_times,
    banks: int = 1,
    live: bool = True,
) -> tuple[S, TickTimes]:
    """A stepper for as many of `sessions` as this device keeps up with.

    Args:
        make: makes a stepper for a number of sessions.
        banks: of which the number is to be a multiple.
        live: one session must fit; a recording waits.

    Raises:
        TooSlow: not even one session's tick fits a frame, and it is for live calls.
    """
    while True:
        stepper = make(sessions)
        times = measure(stepper)
        if times.p99 <= BUDGET_MS or (sessions == banks and not live):
            return stepper, times
        stepper.shutdown()
        if sessions == banks:
            fewer = " or fewer --banks" if banks > 1 else ""
            raise TooSlow(
                f"This device is too slow for a live call: a frame lasts {BUDGET_MS:.0f} ms and "
                f"takes it {times.p99:.0f} ms (99th percentile, full window). Choose another "
                f"--device{fewer}, or --agent tiny or echo."
            )
        # A tick grows less than its sessions do, so this rarely goes too low.
        fitting = min(sessions - 1, int(sessions * BUDGET_MS / times.p99))
        sessions = max(banks, fitting // banks * banks)


def lowered_notice(asked: int, times: TickTimes) -> str:
    """What a person should know when fewer calls are offered than were asked for; else empty."""
    if times.sessions >= asked:
        return ""
    return (
        f"{times.sessions} calls at once instead of {asked}: with these a tick takes "
        f"{times.p99:.0f} ms of the {BUDGET_MS:.0f} it has (99th percentile, full windows)."
    )
