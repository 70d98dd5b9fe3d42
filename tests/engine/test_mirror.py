"""The mirror: a caller's own frames, as late as the model's would be, beside the model's text."""

from __future__ import annotations

import numpy as np
import pytest

from rtc_agent.config import Settings
from rtc_agent.engine.agents import create_stepper
from rtc_agent.engine.stepper import FRAME_SAMPLES, FrameStepper, Pcm, SessionSpec

pytest.importorskip("torch")


@pytest.fixture
def mirror() -> FrameStepper:
    return create_stepper(Settings(agent="mirror", sessions=2, device="cpu")).stepper


def frames(*levels: float) -> Pcm:
    return np.stack([np.full(FRAME_SAMPLES, level, np.float32) for level in levels])


def levels(pcm: Pcm) -> list[float]:
    return [round(float(row[0]), 3) for row in pcm]


def opened(mirror: FrameStepper, slot: int) -> None:
    for _ in mirror.open(slot, SessionSpec()):
        pass


def test_frames_come_back_when_the_models_would(mirror: FrameStepper) -> None:
    assert mirror.info.agent == "mirror" and mirror.info.latency_frames == 1
    for slot in range(2):
        opened(mirror, slot)
    both = np.array([True, True])
    assert levels(mirror.step(frames(0.1, 0.5), both).pcm) == [0, 0]
    assert levels(mirror.step(frames(0.2, 0.6), both).pcm) == [0.1, 0.5]
    only_first = np.array([True, False])
    assert levels(mirror.step(frames(0.3, 0.9), only_first).pcm)[0] == 0.2
    assert levels(mirror.step(frames(0.4, 0.7), both).pcm) == [0.3, 0.6]


def test_nothing_of_a_caller_is_played_to_the_next(mirror: FrameStepper) -> None:
    opened(mirror, 0)
    live = np.array([True, False])
    mirror.step(frames(0.8, 0), live)
    mirror.close(0)
    opened(mirror, 0)
    assert levels(mirror.step(frames(0.1, 0), live).pcm)[0] == 0


def test_the_model_does_its_work(mirror: FrameStepper) -> None:
    opened(mirror, 0)
    live = np.array([True, False])
    said = [mirror.step(frames(0.1, 0), live).text.get(0, "") for _ in range(30)]
    assert any(said)
