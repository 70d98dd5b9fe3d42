"""Capacity by measurement: kept, lowered with a notice, or refused."""

from __future__ import annotations

import numpy as np
import pytest

from rtc_agent.engine.capacity import (
    BUDGET_MS,
    Measurable,
    TickTimes,
    fitting_stepper,
    lowered_notice,
    tick_times,
)
from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.errors import TooSlow
from tests.lockstep_model import SAMPLED, noise, run_alone, stepper


class Device:
    """A device whose tick takes a fixed time and some more for every session."""

    def __init__(self, fixed_ms: float, each_ms: float) -> None:
        self.fixed_ms, self.each_ms = fixed_ms, each_ms
        self.made: list[Sized] = []

    def make(self, sessions: int) -> Sized:
        self.made.append(Sized(sessions))
        return self.made[-1]

    def measure(self, stepper: Measurable) -> TickTimes:
        ms = self.fixed_ms + self.each_ms * stepper.slots
        return TickTimes(stepper.slots, ms, ms)


class Sized:
    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.released = False

    def rehearse(self) -> None: ...

    def shutdown(self) -> None:
        self.released = True


def test_what_fits_is_offered() -> None:
    device = Device(5, 0.5)
    stepper, times = fitting_stepper(device.make, 64, device.measure)
    assert stepper.slots == times.sessions == 64
    assert len(device.made) == 1
    assert lowered_notice(64, times) == ""


@pytest.mark.parametrize("sessions", [2, 9, 64])
def test_sessions_are_lowered_to_what_fits(sessions: int) -> None:
    device = Device(60, 11)
    stepper, times = fitting_stepper(device.make, sessions, device.measure)
    assert stepper.slots == times.sessions == 1
    assert times.p99 <= BUDGET_MS
    assert all(made.released for made in device.made[:-1])
    assert not stepper.released
    notice = lowered_notice(sessions, times)
    assert f"1 calls at once instead of {sessions}" in notice and "71 ms" in notice


def test_a_device_too_slow_for_one_is_refused() -> None:
    device = Device(95, 5)
    with pytest.raises(TooSlow, match="100 ms"):
        fitting_stepper(device.make, 4, device.measure)
    assert all(made.released for made in device.made)


def test_a_recording_waits_for_a_slow_device() -> None:
    device = Device(95, 5)
    stepper, times = fitting_stepper(device.make, 2, device.measure, live=False)
    assert stepper.slots == times.sessions == 1 and not stepper.released


def test_a_rehearsal_leaves_nothing_behind() -> None:
    frames = noise(6, 25)
    untouched = run_alone(stepper(2), 0, SAMPLED, frames)
    engine = stepper(2)
    times = tick_times(engine, ticks=3)
    assert times.sessions == 2 and 0 < times.p50 <= times.p99
    assert run_alone(engine, 0, SAMPLED, frames) == untouched


def test_a_rehearsal_is_as_long_as_a_tick_can_be() -> None:
    engine = stepper(2)
    engine.rehearse()
    with pytest.raises(ValueError, match="not open"):
        engine.step(np.zeros((2, FRAME_SAMPLES), np.float32), np.ones(2, np.bool_))
    seen: list[int] = []
    for bank in engine.banks:
        step = bank.step

        def watched(
            *args: object, bank: object = bank, step: object = step, **kw: object
        ) -> object:
            seen.extend(bank.lm.state.position.tolist())  # type: ignore[attr-defined]
            return step(*args, **kw)  # type: ignore[operator]

        bank.step = watched  # type: ignore[method-assign, assignment]
    engine.rehearse()
    assert seen == [engine._parts.spec.lm.window] * 2
