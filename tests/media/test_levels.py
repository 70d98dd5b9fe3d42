"""Levels in dB, and speech by level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE, Pcm
from rtc_agent.media.levels import SILENCE_DBFS, SpeechDetector, SpeechEvent, dbfs
from tests.media.simulation import noise, read_speech


def run(pcm: Pcm, step: int = FRAME_SAMPLES) -> list[SpeechEvent]:
    detector = SpeechDetector()
    return [e for i in range(0, len(pcm), step) for e in detector.update(pcm[i : i + step])]


def padded(pcm: Pcm, before_s: float, after_s: float, hiss: float = 0.0005) -> Pcm:
    total = noise(before_s + len(pcm) / SAMPLE_RATE + after_s, 9, hiss)
    at = round(before_s * SAMPLE_RATE)
    total[at : at + len(pcm)] += pcm
    return total


def test_level_of_known_signals() -> None:
    assert dbfs(np.zeros(480, np.float32)) == SILENCE_DBFS
    assert dbfs(np.empty(0, np.float32)) == SILENCE_DBFS
    assert dbfs(np.ones(480, np.float32)) == pytest.approx(0, abs=0.01)
    t = np.arange(2_400) / SAMPLE_RATE
    sine = (0.1 * np.sin(2 * np.pi * 1_000 * t)).astype(np.float32)
    assert dbfs(sine) == pytest.approx(-23.01, abs=0.05)


def test_speech_starts_and_stops_within_a_frame() -> None:
    events = run(padded(noise(1.8), 1.0, 2.0))
    assert [e.state for e in events] == ["started", "stopped"]
    assert events[0].at_s == pytest.approx(1.0, abs=0.08)
    assert events[1].at_s == pytest.approx(2.8, abs=0.08)
    assert events[1].duration_s == pytest.approx(1.8, abs=0.08)


def test_words_of_a_sentence_are_one_utterance() -> None:
    events = run(padded(read_speech(), 1.0, 2.0))
    assert [e.state for e in events][:2] == ["started", "stopped"]
    assert len(events) <= 4


@pytest.mark.parametrize("hiss", [0.0, 0.0005, 0.003])
def test_steady_noise_is_no_speech(hiss: float) -> None:
    assert run(noise(5, 2, hiss) if hiss else np.zeros(5 * SAMPLE_RATE, np.float32)) == []


def test_a_click_is_no_speech() -> None:
    click = np.zeros(SAMPLE_RATE, np.float32)
    click[12_000:12_300] = 0.9
    assert run(click) == []


def test_a_level_at_the_threshold_does_not_flap() -> None:
    t = np.arange(10 * SAMPLE_RATE) / SAMPLE_RATE
    wobble = 10 ** ((-48 + 2 * np.sin(2 * np.pi * 7 * t)) / 20)
    events = run(np.asarray(noise(10, 4, 1.0) * wobble, np.float32))
    assert len(events) <= 2


@settings(deadline=None)
@given(st.integers(1, 5_000))
def test_block_size_does_not_matter(step: int) -> None:
    pcm = padded(noise(0.5), 0.3, 0.8)
    assert run(pcm, step) == run(pcm)
