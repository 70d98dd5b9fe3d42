"""Stages apart beside the single stage: the same sound, the same text, and when."""

from __future__ import annotations

import numpy as np
import pytest

from rtc_agent.engine.stages.settings import StageSettings
from rtc_agent.engine.stepper import FRAME_SAMPLES, PipelinedStepper, SessionSpec
from rtc_agent.errors import EngineFailed
from rtc_agent.offline import run_offline
from tests.engine.stages.model import Gate, staged
from tests.lockstep_model import (
    GREEDY,
    PROMPTED,
    SAMPLED,
    Said,
    noise,
    open_slot,
    run_alone,
    step_one,
    stepper,
)

FRAMES = 16


def _single(spec: SessionSpec, seed: int = 1, frames: int = FRAMES) -> Said:
    return run_alone(stepper(1), 0, spec, noise(seed, frames))


@pytest.mark.parametrize("bank_rows", [1, 2])
def test_sound_and_text_are_those_of_the_single_stage_bit_for_bit(bank_rows: int) -> None:
    whole = stepper(2, bank_rows=bank_rows)
    with staged(2, bank_rows=bank_rows) as apart:
        assert isinstance(apart, PipelinedStepper)
        assert apart.info == whole.info
        for spec in (PROMPTED, SAMPLED, GREEDY):
            expected = run_alone(whole, 1, spec, noise(1, FRAMES))
            assert run_alone(apart, 1, spec, noise(1, FRAMES)) == expected


@pytest.mark.parametrize(("initial", "chunk", "ticks_before"), [(1, 2, 1), (1, 5, 3), (2, 3, 0)])
def test_chunks_only_delay_what_is_said(initial: int, chunk: int, ticks_before: int) -> None:
    expected = _single(PROMPTED)
    stages = StageSettings(initial_codec_chunk_frames=initial, codec_chunk_frames=chunk)
    with staged(2, stages) as apart:
        assert apart.info.held_frames == chunk - 1
        assert apart.info.latency_frames == 1 + chunk - 1
        # Chunks end in the same tick for all sessions; this one begins in the middle of one.
        run_alone(apart, 1, GREEDY, noise(9, ticks_before))
        said = run_alone(apart, 0, PROMPTED, noise(1, FRAMES))
    for tick in range(FRAMES):
        first, later = tick - (initial - 1), tick - (chunk - 1)
        frame = first if 0 <= first < initial else later if later >= initial else None
        if frame is None:
            assert not said.pcm[tick].any() and said.text[tick] == ""
        else:
            assert np.array_equal(said.pcm[tick], expected.pcm[frame])
            assert said.text[tick] == expected.text[frame]


@pytest.mark.parametrize("chunk", [1, 4])
def test_offline_gives_the_same_recording_however_it_is_cut(chunk: int) -> None:
    def recorded(engine: object) -> tuple[bytes, object]:
        sound: list[np.ndarray] = []
        result = run_offline(
            engine,  # type: ignore[arg-type]
            iter(noise(3, 10)),
            lambda: 10 * FRAME_SAMPLES - 77,
            sound.append,
            PROMPTED,
        )
        return np.concatenate(sound).tobytes(), result.as_json()

    expected = recorded(stepper(1))
    with staged(1, StageSettings(codec_chunk_frames=chunk)) as apart:
        assert recorded(apart) == expected


def test_neighbours_that_come_and_go_change_nothing() -> None:
    whole = stepper(2, bank_rows=2)
    expected = run_alone(whole, 0, PROMPTED, noise(1, FRAMES))
    beside = run_alone(whole, 1, SAMPLED, noise(2, FRAMES))
    said, other = Said(), Said()
    stages = StageSettings(codec_chunk_frames=2)
    with staged(2, stages, bank_rows=2) as apart:
        open_slot(apart, 0, PROMPTED)
        frames, others = noise(1, FRAMES), np.roll(noise(2, FRAMES), 4, axis=0)
        for tick in range(FRAMES):
            if tick == 4:
                open_slot(apart, 1, SAMPLED)
            if tick == 12:
                apart.close(1)
            live = np.array([True, 4 <= tick < 12])
            pcm = np.stack([frames[tick], others[tick]])
            result = apart.step(pcm, live)
            for slot, kept in ((0, said), (1, other)):
                if live[slot]:
                    kept.pcm.append(result.pcm[slot].copy())
                    kept.text.append(result.text.get(slot, ""))
    # One frame at once, one tick of silence, and the rest a tick late.
    assert said == _held_by_one(expected)
    assert other == _held_by_one(Said(beside.pcm[:8], beside.text[:8]))


def _held_by_one(said: Said) -> Said:
    silence = np.zeros(FRAME_SAMPLES, np.float32)
    return Said([said.pcm[0], silence, *said.pcm[1:-1]], [said.text[0], "", *said.text[1:-1]])


def test_a_slot_begins_anew_though_its_last_call_left_frames_on_their_way() -> None:
    stages = StageSettings(codec_chunk_frames=5)
    with staged(1, stages) as apart:
        fresh = run_alone(apart, 0, SAMPLED, noise(4, 12))
        open_slot(apart, 0, PROMPTED)
        abandoned = [apart.begin(noise(1, 1), np.ones(1, np.bool_)) for _ in range(3)]
        for finish in abandoned:
            finish()
        apart.close(0)
        # The same phase of the chunks as the first time.
        run_alone(apart, 0, GREEDY, noise(5, 5 - (12 + 3) % 5))
        assert run_alone(apart, 0, SAMPLED, noise(4, 12)) == fresh


def test_the_next_frames_are_taken_before_the_sound_of_the_last_is_there() -> None:
    expected = _single(SAMPLED, seed=6, frames=8)
    frames, live = noise(6, 8), np.ones(1, np.bool_)
    with staged(1) as apart:
        open_slot(apart, 0, SAMPLED)
        finish = apart.begin(frames[:1], live)
        sound = []
        for frame in frames[1:]:
            following = apart.begin(frame[None], live)
            sound.append(finish().pcm[0])
            finish = following
        sound.append(finish().pcm[0])
    assert all(np.array_equal(a, b) for a, b in zip(sound, expected.pcm, strict=True))


def test_a_caller_whose_numbers_are_none_fails_alone() -> None:
    with staged(2, bank_rows=2) as apart:
        open_slot(apart, 0, SAMPLED)
        open_slot(apart, 1, SAMPLED)
        pcm = noise(1, 2)
        pcm[1, 5] = np.nan
        result = apart.step(pcm, np.ones(2, np.bool_))
        assert list(result.failed) == [1]
        assert not result.lost and not result.held
        said = Said()
        for frame in noise(2, 4):
            step_one(apart, 0, frame, said)
        assert all(pcm.any() for pcm in said.pcm)


def test_a_rehearsal_leaves_nothing_behind() -> None:
    expected = _single(PROMPTED)
    with staged(1) as apart:
        apart.rehearse()
        assert run_alone(apart, 0, PROMPTED, noise(1, FRAMES)) == expected
        apart.rehearse()
        open_slot(apart, 0, GREEDY)
        with pytest.raises(ValueError, match="spoil"):
            apart.rehearse()


def test_offline_does_not_pass_over_sound_that_was_lost() -> None:
    gate = Gate()
    with staged(1, gate=gate) as apart:
        gate.fail_on_frame = 5
        with pytest.raises(EngineFailed, match="could not be made"):
            run_offline(apart, iter(noise(3, 30)), lambda: 0, lambda _: None, SAMPLED)
