"""A folder as it is shipped: opened, answered from, and told about."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rtc_agent.config import Settings
from rtc_agent.engine import agents, loading
from rtc_agent.engine.capacity import TickTimes
from rtc_agent.engine.stepper import FRAME_SAMPLES, SamplingSpec, SessionSpec
from rtc_agent.errors import CheckpointError
from rtc_agent.model.folder import ModelFolder
from rtc_agent.model.spec import ModelSpec
from rtc_agent.training import model_folder
from rtc_agent.training.demo_spec import DEMO_SPEC
from rtc_agent.training.model_folder import spec_config
from tests.training.small_model import SPEC, write_small_model


@pytest.mark.parametrize("spec", [DEMO_SPEC, SPEC])
def test_a_spec_survives_its_config(spec: ModelSpec) -> None:
    assert ModelSpec.from_config(json.loads(json.dumps(spec_config(spec)))) == spec


def test_a_config_that_says_something_else_is_found(tmp_path: Path) -> None:
    lossy = replace(SPEC, lm=replace(SPEC.lm, text_card=119, depformer_window=8))
    with pytest.raises(CheckpointError, match="does not say what the model is"):
        write_small_model(tmp_path, lossy)


def test_what_is_too_large_to_ship_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "SIZE_LIMIT", 1000)
    with pytest.raises(CheckpointError, match="1000 may be shipped"):
        write_small_model(tmp_path)


def test_the_demo_answers_from_its_folder(tmp_path: Path) -> None:
    write_small_model(tmp_path)
    choice = agents.create_stepper(Settings(agent="demo", model=tmp_path, sessions=1))
    stepper = choice.stepper
    about = stepper.info
    assert about.agent == "demo" and stepper.slots == 1
    assert "knows 3 kinds of questions, such as “what is two plus three”" in about.description
    assert "rtc-agent download personaplex" in about.description
    for _ in stepper.open(0, SessionSpec(persona="You are Nova.", sampling=SamplingSpec(True))):
        pass
    pcm = np.zeros((1, FRAME_SAMPLES), np.float32)
    result = stepper.step(pcm, np.array([True]))
    assert not result.failed and result.pcm.any()


def test_auto_takes_the_demo_where_personaplex_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small_model(tmp_path / "demo")
    monkeypatch.setattr(agents, "DEMO_FOLDER", tmp_path / "demo")
    choice = agents.create_stepper(Settings(agent="auto", device="cpu", sessions=1))
    assert choice.stepper.info.agent == "demo"
    assert "This is the demo agent, not PersonaPlex" in choice.notice


def test_auto_serves_the_demo_that_is_named_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small_model(tmp_path)
    monkeypatch.setattr(agents, "DEMO_FOLDER", tmp_path / "none")
    settings = Settings(agent="auto", model=tmp_path, sessions=1)
    choice = agents.create_stepper(settings)
    assert (
        choice.stepper.info.agent == "demo" and "knows 3 kinds" in choice.stepper.info.description
    )
    assert "PersonaPlex; missing" not in choice.notice
    lm = tmp_path / "lm.safetensors"
    lm.write_bytes(lm.read_bytes()[:-1000])
    with pytest.raises(CheckpointError, match=r"lm\.safetensors cannot be read"):
        agents.create_stepper(settings)
    lm.unlink()
    with pytest.raises(CheckpointError, match=r"no lm\.safetensors, which its config\.json names"):
        agents.create_stepper(settings)


def test_a_processor_is_given_no_more_calls_than_it_keeps_up_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small_model(tmp_path)
    settings = Settings(agent="demo", model=tmp_path)

    def slots(step_ms: float) -> tuple[int, str]:
        times = TickTimes(1, step_ms, step_ms)
        monkeypatch.setattr(loading, "tick_times", lambda *_, **__: times)
        choice = agents.create_stepper(settings)
        return choice.stepper.slots, choice.notice

    assert slots(25) == (2, "")
    assert slots(1) == (settings.sessions, "")
    count, notice = slots(200)
    assert count == 1 and "Not in real time" in notice
    settings = Settings(agent="demo", model=tmp_path, banks=2)
    assert slots(1) == (4, "") and slots(18) == (2, "")
    count, notice = slots(40)
    assert count == 1 and "Banks: 1 instead of 2" in notice and "--sessions 2" in notice


def test_only_calls_need_to_be_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_small_model(tmp_path)
    monkeypatch.setattr(agents, "FRAME_S", 0.0)
    settings = Settings(agent="demo", model=tmp_path, sessions=1)
    told: list[str] = []
    slow = agents.create_stepper(settings, told.append)
    slow.tell(logging.getLogger("rtc_agent"))
    assert "Not in real time" in slow.notice
    # Whoever has started it so should not have to look for that among the rest.
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    idle = agents.create_stepper(settings, live=False)
    assert idle.notice == "" and not idle.too_slow
    assert "preparing one session" in told


def test_a_domain_that_cannot_be_told_is_refused(tmp_path: Path) -> None:
    write_small_model(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for broken in (
        {"kinds": "many"},
        {"kinds": 3, "examples": [1]},
        {"kinds": 3, "names": "Nova"},
        {"kinds": 3, "names": ["Nova", " "]},
        {"kinds": 3, "names": ["Nova", "x" * 41]},
    ):
        path.write_text(json.dumps(config | {"domain": broken}))
        with pytest.raises(CheckpointError):
            ModelFolder.open(tmp_path)


def test_of_very_many_names_a_hundred_are_told(tmp_path: Path) -> None:
    write_small_model(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    names = [f"Name{n}" for n in range(10_000)]
    path.write_text(json.dumps(config | {"domain": {"kinds": 3, "names": names}}))
    domain = ModelFolder.open(tmp_path).domain
    assert domain is not None and domain.names == tuple(names[:100])


def test_an_example_that_ends_a_sentence_does_not_end_it_twice(tmp_path: Path) -> None:
    write_small_model(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    asked = ["What is that?", "Tell me a joke."]
    path.write_text(json.dumps(config | {"domain": {"kinds": 3, "examples": asked}}))
    choice = agents.create_stepper(Settings(agent="demo", model=tmp_path, sessions=1))
    assert "such as “What is that?”, “Tell me a joke”. The" in choice.stepper.info.description
