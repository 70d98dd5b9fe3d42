"""The packaged demo agent in the run-time's own stepper: right, apart, and quiet when alone."""

from __future__ import annotations

import json
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rtc_agent.config import Settings
from rtc_agent.engine.agents import create_stepper
from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES
from rtc_agent.training.data.texts.intents import STILL_THERE
from rtc_agent.training.data.texts.names import DEFAULT_NAME, greeting
from tests.cli.command import runner
from tests.client.audio import save_wav
from tests.demo.questions import GREEDY, Question, questions
from tests.lockstep_model import Said, open_slot, run_alone

BRIEFLY = 3
"""Frames of the conversations that the slots were used for before."""
GREETED_FRAMES = 45


def demo(sessions: int) -> LockstepStepper:
    torch.set_num_threads(1)
    stepper = create_stepper(Settings(agent="demo", device="cpu", sessions=sessions)).stepper
    assert isinstance(stepper, LockstepStepper)
    return stepper


def hold(engine: LockstepStepper, asked: list[Question], frames: int) -> list[Said]:
    """A conversation in every slot at once, as far as `frames`."""
    tracks = [question.asked() for question in asked]
    said = [Said() for _ in tracks]
    for slot in range(engine.slots):
        open_slot(engine, slot, GREEDY)
    for at in range(frames):
        live = np.array([at < len(track) for track in tracks])
        pcm = np.zeros((engine.slots, FRAME_SAMPLES), np.float32)
        for slot in np.flatnonzero(live):
            pcm[slot] = tracks[slot][at]
        result = engine.step(pcm, live)
        assert not result.failed
        for slot in np.flatnonzero(live):
            said[slot].pcm.append(result.pcm[slot].copy())
            said[slot].text.append(result.text.get(int(slot), ""))
    for slot in range(engine.slots):
        engine.close(slot)
    return said


def test_eight_conversations_at_once_are_each_right_and_each_as_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = list(questions())
    assert len({question.answers for question in asked}) == 8
    engine = demo(8)
    hold(engine, [*asked[1:], asked[0]], BRIEFLY)
    together = hold(engine, asked, max(len(question.asked()) for question in asked))
    for question, said in zip(asked, together, strict=True):
        greeted = "".join(said.text).strip().removeprefix(greeting(DEFAULT_NAME))
        assert greeted.strip() in question.answers, (question.said, said.text)
        assert question.answered_in(np.concatenate(said.pcm)), question.said

    alone = run_alone(demo(1), 0, GREEDY, asked[0].asked())
    assert alone == together[0]

    # What the command makes of a recording is that, token for token, and its sound to 16 bits.
    track = asked[0].asked()
    source = save_wav(tmp_path / "question.wav", track.reshape(-1))
    outcome = runner(monkeypatch, capsys)(
        *("offline", "--input", source, "--output", tmp_path / "out.wav"),
        *("--text", tmp_path / "out.json", "--agent", "demo", "--device", "cpu", "--greedy"),
    )
    assert outcome.status == 0, outcome
    # Sixteen bits of the caller are not the samples above, so they are heard again.
    with wave.open(str(source)) as file:
        coarse = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
    again = run_alone(engine, 3, GREEDY, (coarse / 32_768).reshape(-1, FRAME_SAMPLES))
    written = json.loads((tmp_path / "out.json").read_text())
    events = {event["frame"]: event["delta"] for event in written["events"]}
    assert events == {frame: delta for frame, delta in enumerate(again.text) if delta}
    with wave.open(str(tmp_path / "out.wav")) as file:
        heard = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
    assert np.abs(heard / 32_768 - np.concatenate(again.pcm)).max() <= 1.5 / 32_768


def test_a_minute_of_silence_brings_the_greeting_and_one_question_at_most() -> None:
    frames = round(60 / FRAME_S)
    silence = np.zeros((frames, FRAME_SAMPLES), np.float32)
    text = "".join(run_alone(demo(1), 0, GREEDY, silence).text).strip()
    assert text in (greeting(DEFAULT_NAME), f"{greeting(DEFAULT_NAME)} {STILL_THERE}")


@pytest.mark.parametrize(
    ("persona", "name"),
    [
        ("Your name is Ruby.", "Ruby"),
        ("You are Max, a friendly voice on the phone.", "Max"),
        ("You like to laugh, and your name is Iris.", "Iris"),
        ("You work for a bank, your name is Henry, and you never speak of prices.", "Henry"),
        ("You are Friederike, a friendly voice on the phone.", DEFAULT_NAME),
        ("You are a helpful assistant.", DEFAULT_NAME),
    ],
)
def test_it_goes_by_the_name_that_its_persona_gives(persona: str, name: str) -> None:
    engine = demo(1)
    assert name in engine.info.persona_names
    silence = np.zeros((GREETED_FRAMES, FRAME_SAMPLES), np.float32)
    said = run_alone(engine, 0, replace(GREEDY, persona=persona), silence)
    assert "".join(said.text).strip() == greeting(name)
