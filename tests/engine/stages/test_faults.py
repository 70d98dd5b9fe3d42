"""Code2wav dies, hangs, is late, cannot start: what callers hear, and that the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from rtc_agent.engine.stages import keeper
from rtc_agent.engine.stages import stepper as stage_stepper
from rtc_agent.engine.stages.settings import Code2WavStage, StageSettings
from rtc_agent.engine.stages.stepper import StagedStepper
from rtc_agent.engine.stepper import StepResult
from rtc_agent.errors import ConfigError, StageFailed
from tests.engine.stages.model import PATIENT_S, Gate, staged
from tests.lockstep_model import PROMPTED, SAMPLED, noise, open_slot, run_alone, stepper

LIVE = np.ones(1, np.bool_)
FRAMES = 30
WINDOW_FRAMES = 8
"""The test codec's window of eight positions is four frames, in one layer; its convolutions see
less than as much again."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restarts without a pause, and live waits short enough to be missed on purpose."""
    monkeypatch.setattr(keeper, "PAUSE_S", 0.001)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def live_step(apart: StagedStepper, frame: np.ndarray) -> StepResult:
    return apart.begin(frame[None], LIVE)()


def _sound_after_a_death(left_context: int, dies_on: int) -> tuple[list[StepResult], Gate]:
    gate = Gate()
    gate.fail_on_frame = dies_on
    stages = StageSettings(codec_left_context_frames=left_context)
    frames = list(noise(1, FRAMES))
    with staged(1, stages, gate=gate) as apart:
        open_slot(apart, 0, PROMPTED)
        results = []
        while not results or not results[-1].lost:
            results.append(apart.step(frames.pop(0)[None], LIVE))
        gate.fail_on_frame = None
        until(lambda: gate.starts == 2)
        # What it takes over is decoded before the next frame, which waits as long as it takes.
        until(lambda: apart.link.mark()[0] == 2)
        results += [apart.step(frame[None], LIVE) for frame in frames]
        assert apart.link.restarts == 1
    return results, gate


def test_a_death_costs_the_sound_of_its_frames_and_nothing_else() -> None:
    expected = run_alone(stepper(1), 0, PROMPTED, noise(1, FRAMES))
    results, _ = _sound_after_a_death(left_context=125, dies_on=20)
    lost = [tick for tick, result in enumerate(results) if result.lost]
    assert lost == [19]
    for tick, result in enumerate(results):
        assert result.text.get(0, "") == expected.text[tick]
        if tick in lost:
            assert not result.pcm[0].any()
        else:
            # The left context reaches back to the call's beginning: not a bit differs.
            assert np.array_equal(result.pcm[0], expected.pcm[tick])


def test_a_left_context_shorter_than_the_call_gives_nearly_the_same_sound() -> None:
    expected = run_alone(stepper(1), 0, PROMPTED, noise(1, FRAMES))

    def error(left_context: int) -> float:
        results, gate = _sound_after_a_death(left_context, dies_on=25)
        assert gate.decoded <= left_context + FRAMES - 25 + 1
        first = results[26].pcm[0]
        return float(np.abs(first - expected.pcm[26]).max() / np.abs(expected.pcm[26]).max())

    assert error(WINDOW_FRAMES) < 1e-4
    assert error(0) > 1e-2


def test_a_death_between_calls_is_noticed_and_mended() -> None:
    expected = run_alone(stepper(1), 0, PROMPTED, noise(1, 6))
    gate = Gate()
    with staged(1, gate=gate) as apart:
        worker = apart.link._worker
        assert worker is not None
        worker.kill()
        until(lambda: gate.starts == 2 and apart.link.up)
        assert run_alone(apart, 0, PROMPTED, noise(1, 6)) == expected


def test_a_spare_takes_over_without_being_loaded_first() -> None:
    expected = run_alone(stepper(1), 0, PROMPTED, noise(1, 12))
    gate = Gate()
    frames = noise(1, 12)
    stages = StageSettings(code2wav=Code2WavStage(spare=True))
    with staged(1, stages, gate=gate) as apart:
        until(lambda: gate.starts == 2)
        open_slot(apart, 0, PROMPTED)
        results = [apart.step(frame[None], LIVE) for frame in frames[:4]]
        first = apart.link._worker
        assert first is not None
        first.hang_up()
        until(lambda: apart.link.mark()[0] == 2)
        results += [apart.step(frame[None], LIVE) for frame in frames[4:]]
        # The next spare.
        until(lambda: gate.starts == 3)
    for result, pcm in zip(results, expected.pcm, strict=True):
        assert not result.lost and np.array_equal(result.pcm[0], pcm)


def test_one_that_hangs_is_replaced_and_the_talker_goes_on() -> None:
    expected = run_alone(stepper(1), 0, SAMPLED, noise(1, 30))
    gate = Gate()
    frames = noise(1, 30)
    with staged(1, gate=gate) as apart:
        open_slot(apart, 0, SAMPLED)
        results = [apart.step(frame[None], LIVE) for frame in frames[:8]]
        gate.open.clear()
        apart.link.hung_s = 0.5
        while gate.starts < 2 and len(results) < 28:
            results.append(live_step(apart, frames[len(results)]))
            time.sleep(0.1)
        until(lambda: gate.starts == 2)
        apart.link.hung_s = PATIENT_S
        assert all(result.lost for result in results[8:])
        gate.open.set()
        until(lambda: apart.link.mark()[0] == 2)
        results += [apart.step(frame[None], LIVE) for frame in frames[len(results) :]]
    assert [r.text.get(0, "") for r in results] == expected.text
    assert not results[-1].lost
    assert np.array_equal(results[-1].pcm[0], expected.pcm[-1])


def test_one_that_is_late_is_not_waited_for_until_it_has_caught_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage_stepper, "PATIENCE_S", 0.05)
    expected = run_alone(stepper(1), 0, SAMPLED, noise(1, 20))
    gate = Gate()
    frames = noise(1, 20)
    with staged(1, gate=gate) as apart:
        open_slot(apart, 0, SAMPLED)
        results = [apart.step(frame[None], LIVE) for frame in frames[:5]]
        gate.open.clear()
        results += [live_step(apart, frame) for frame in frames[5:9]]
        assert all(result.lost for result in results[5:9])
        gate.open.set()
        until(lambda: gate.decoded == 8)
        results += [apart.step(frame[None], LIVE) for frame in frames[9:]]
        assert apart.link.restarts == 0 and apart.link.up
    for tick in (*range(5), *range(9, 20)):
        assert np.array_equal(results[tick].pcm[0], expected.pcm[tick])


def test_one_that_is_slow_holds_the_talker_back_and_is_heard_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage_stepper, "PATIENCE_S", 0.3)
    gate = Gate()
    frames = noise(1, 40)
    with staged(1, gate=gate) as apart:
        open_slot(apart, 0, SAMPLED)
        results = [apart.step(frame[None], LIVE) for frame in frames[:3]]
        gate.open.clear()
        results += [live_step(apart, frame) for frame in frames[3:8]]
        assert all(result.lost for result in results[3:])
        # Slower than the talker, which waits for nothing here: without it, never caught up with.
        monkeypatch.setattr(stage_stepper, "PATIENCE_S", PATIENT_S)
        gate.delay_s = 0.02
        gate.open.set()
        until(lambda: gate.decoded > 3)
        results += [live_step(apart, frame) for frame in frames[8:]]
    assert not any(result.lost for result in results[-10:])


def test_one_that_cannot_start_is_refused_with_its_reason() -> None:
    def refuse() -> None:
        raise ConfigError("There is no cuda:1 here.")

    with pytest.raises(StageFailed, match="no cuda:1 here"):
        with staged(1, refuse=refuse):  # type: ignore[arg-type]
            pass


def test_one_that_dies_again_and_again_is_given_up_with_a_reason() -> None:
    gate = Gate()
    with staged(1, gate=gate) as apart:
        open_slot(apart, 0, PROMPTED)
        gate.fail_on_frame = 1
        results = []
        with pytest.raises(StageFailed, match="makes its voice does not run"):
            for _ in range(2000):
                results.append(live_step(apart, noise(1, 1)[0]))
        assert gate.starts == keeper.TRIES
        assert not any(result.failed for result in results)
