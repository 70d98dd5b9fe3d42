from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from rtc_agent.engine.stepper import (
    FRAME_SAMPLES,
    Mask,
    Pcm,
    SamplingSpec,
    SessionSpec,
    StepperInfo,
    StepResult,
)
from rtc_agent.errors import EngineFailed, UnknownVoice
from rtc_agent.offline import OfflineResult, Silence, TextEvent, run_offline

NO_SILENCE = Silence()
DEFAULT = SessionSpec()


class DelayStepper:
    """Gives each frame back one tick later; says a word on ticks that are asked for."""

    def __init__(self, words: dict[int, str] | None = None, fail_at: int | None = None) -> None:
        self.slots = 3
        self.info = StepperInfo(agent="echo", description="one tick of delay", latency_frames=1)
        self.words = words or {}
        self.fail_at = fail_at
        self.calls: list[str] = []
        self.rest = ""
        self.spec: SessionSpec | None = None
        self._last = np.zeros(FRAME_SAMPLES, np.float32)
        self._tick = 0

    def check(self, spec: SessionSpec) -> None:
        if spec.voice is not None:
            raise UnknownVoice("There are no voices.")

    def open(self, slot: int, spec: SessionSpec) -> Iterator[None]:
        self.calls.append(f"open {slot}")
        self.spec = spec
        yield
        self.calls.append("opened")

    def step(self, pcm: Pcm, live: Mask) -> StepResult:
        assert live.tolist() == [True, False, False]
        out = np.full((3, FRAME_SAMPLES), np.nan, np.float32)
        out[0], self._last = self._last, pcm[0].copy()
        tick, self._tick = self._tick, self._tick + 1
        return StepResult(
            pcm=out,
            text={0: self.words[tick]} if tick in self.words else {},
            failed={0: "the row has no numbers"} if tick == self.fail_at else {},
        )

    def close(self, slot: int) -> str:
        self.calls.append(f"close {slot}")
        return self.rest

    def shutdown(self) -> None:
        self.calls.append("shutdown")


def run(
    samples: int,
    stepper: DelayStepper | None = None,
    silence: Silence = NO_SILENCE,
    spec: SessionSpec = DEFAULT,
    loud: float = 0.0,
) -> tuple[OfflineResult, Pcm]:
    pcm = (np.arange(samples, dtype=np.float32) % 1000 + 1) / 1000 * (loud or 1e-4)
    padded = np.pad(pcm, (0, -samples % FRAME_SAMPLES)).reshape(-1, FRAME_SAMPLES)
    written: list[Pcm] = [np.zeros(0, np.float32)]
    result = run_offline(
        stepper or DelayStepper(),
        iter(padded),
        lambda: samples,
        lambda block: written.append(block.copy()),
        spec,
        silence,
    )
    return result, np.concatenate(written)


@pytest.mark.parametrize("samples", [0, 1, 1919, 1920, 1921, 10_000])
def test_output_is_as_long_as_the_input(samples: int) -> None:
    result, out = run(samples)
    assert len(out) == result.samples == samples
    assert result.frames == -(-samples // FRAME_SAMPLES)
    expected = (np.arange(samples, dtype=np.float32) % 1000 + 1) / 1000 * 1e-4
    delayed = np.pad(expected, (FRAME_SAMPLES, 0))[:samples]
    np.testing.assert_array_equal(out, delayed)


def test_silence_around_the_input_is_part_of_the_output() -> None:
    result, out = run(2_000, silence=Silence(leading_s=0.16, trailing_s=0.5))
    assert len(out) == result.samples == 2 * FRAME_SAMPLES + 2_000 + 12_000
    # Two frames of lead, one of the stepper's own delay, then the caller, whole.
    start = 3 * FRAME_SAMPLES
    assert not out[:start].any() and out[start : start + 2_000].all()
    assert not out[start + 2_000 :].any()


def test_text_has_the_time_of_its_frame() -> None:
    result, _ = run(40 * FRAME_SAMPLES, DelayStepper({2: " Hello", 25: " there"}))
    assert result.as_json()["events"] == [
        {"frame": 2, "t_ms": 160, "delta": " Hello"},
        {"frame": 25, "t_ms": 2000, "delta": " there"},
    ]
    assert result.text == " Hello there"


def test_text_held_back_to_the_end_belongs_to_the_last_frame() -> None:
    stepper = DelayStepper({1: "caf"})
    stepper.rest = "\ufffd"
    result, _ = run(3 * FRAME_SAMPLES, stepper)
    assert result.text == "caf\ufffd"
    assert result.events[-1] == TextEvent(2, 160, "\ufffd")


def test_says_when_the_reply_was_cut() -> None:
    assert run(10 * FRAME_SAMPLES, DelayStepper({8: "so"}))[0].reply_cut
    assert not run(20 * FRAME_SAMPLES, DelayStepper({8: "so"}))[0].reply_cut
    assert run(10 * FRAME_SAMPLES, loud=0.5)[0].reply_cut
    assert not run(10 * FRAME_SAMPLES, loud=0.5, silence=Silence(trailing_s=0.4))[0].reply_cut
    assert not run(0)[0].reply_cut


def test_a_run_can_be_repeated_from_its_result() -> None:
    stepper = DelayStepper()
    result, _ = run(1, stepper)
    assert stepper.spec is not None and stepper.spec.sampling.seed == result.seed is not None
    given = SessionSpec(sampling=SamplingSpec(seed=7))
    assert run(1, spec=given)[0].seed == 7
    greedy = DelayStepper()
    asked = SessionSpec(sampling=SamplingSpec(greedy=True))
    assert run(1, greedy, spec=asked)[0].seed is None
    assert greedy.spec == asked


def test_slot_is_opened_whole_and_closed_whatever_happens() -> None:
    stepper = DelayStepper()
    run(1, stepper)
    assert stepper.calls == ["open 0", "opened", "close 0"]
    failing = DelayStepper(fail_at=2)
    with pytest.raises(EngineFailed, match=r"0\.16 s in: the row has no numbers"):
        run(10 * FRAME_SAMPLES, failing)
    assert failing.calls[-1] == "close 0"


def test_a_spec_that_cannot_be_served_opens_nothing() -> None:
    stepper = DelayStepper()
    with pytest.raises(UnknownVoice):
        run(1, stepper, spec=replace(SessionSpec(), voice="NATF0"))
    assert stepper.calls == []
