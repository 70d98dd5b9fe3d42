"""Which agent answers, and what a person is told about it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rtc_agent.config import Settings
from rtc_agent.engine import agents
from rtc_agent.errors import ConfigError, MissingDependency
from rtc_agent.model.catalog import CODEC_FILE, LM_FILE, TEXT_FILE


def test_echo_needs_nothing_and_says_nothing() -> None:
    choice = agents.create_stepper(Settings(agent="echo", sessions=3))
    assert choice.stepper.info.agent == "echo" and choice.stepper.slots == 3
    assert choice.notice == ""


def test_auto_is_echo_here_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "DEMO_FOLDER", tmp_path / "none")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    choice = agents.create_stepper(Settings(agent="auto", device="cpu"))
    assert choice.stepper.info.agent == "echo"
    assert "download personaplex" in choice.notice and "cpu" in choice.notice


def test_who_names_a_model_gets_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the package brings, and whatever this machine lacks."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def refusal(folder: Path) -> str:
        with pytest.raises(ConfigError) as refused:
            agents.create_stepper(Settings(agent="auto", model=folder))
        return refused.value.message

    assert f"no folder {tmp_path / 'nowhere'}" in refusal(tmp_path / "nowhere")
    assert "has no model.safetensors" in refusal(tmp_path)
    for name in (LM_FILE, CODEC_FILE, TEXT_FILE):
        (tmp_path / name).touch()
    assert "GPU" in (told := refusal(tmp_path)) and "--agent moshi" in told
    (tmp_path / "voices.tgz").touch()
    assert "GPU" in (told := refusal(tmp_path)) and "--agent personaplex" in told
    (tmp_path / "config.json").write_text('{"model_type": "other"}')
    assert "'other'" in refusal(tmp_path)
    monkeypatch.setattr(agents, "_absent_packages", lambda: ["torch"])
    assert "pip install" in refusal(tmp_path)


def test_a_folder_that_is_no_demo_is_told_what_one_needs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ConfigError, match="no config.json.*train-demo"):
        agents.create_stepper(Settings(agent="demo", model=tmp_path))
    (tmp_path / "lm.safetensors").touch()
    with pytest.raises(ConfigError, match="no config.json.*train-demo"):
        agents.create_stepper(Settings(agent="auto", model=tmp_path))


def test_a_gpu_too_old_for_personaplex_is_no_reason_to_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(agents, "DEMO_FOLDER", tmp_path / "none")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _=None: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _=None: "Tesla T4")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_75", "sm_90"])
    choice = agents.create_stepper(Settings(agent="auto"))
    assert choice.stepper.info.agent == "echo"
    assert "Tesla T4" in choice.notice and "7.5" in choice.notice


def test_without_the_models_packages_auto_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "_absent_packages", lambda: ["torch"])
    assert "pip install 'rtc-agent[model]'" in agents.create_stepper(Settings(agent="auto")).notice
    with pytest.raises(MissingDependency, match="torch"):
        agents.create_stepper(Settings(agent="tiny"))


def test_who_lacks_only_packages_for_the_demo_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "_absent_packages", lambda: ["torch"])
    monkeypatch.setattr(agents, "DEMO_FOLDER", tmp_path)
    told = "With these packages alone the demo agent answers, which talks."
    assert told not in agents.create_stepper(Settings(agent="auto")).notice
    (tmp_path / "config.json").touch()
    choice = agents.create_stepper(Settings(agent="auto"))
    assert choice.stepper.info.agent == "echo" and choice.notice.endswith(told)


def test_the_demo_without_weights_says_where_to_get_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(agents, "DEMO_FOLDER", tmp_path / "none")
    with pytest.raises(ConfigError, match="--model"):
        agents.create_stepper(Settings(agent="demo"))


def test_the_demo_is_read_once_however_many_sessions_a_processor_is_measured_to_keep_up_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("torch")
    from rtc_agent.engine import loading
    from rtc_agent.engine.capacity import TickTimes

    reads: list[object] = []
    load_lm = loading.load_lm
    monkeypatch.setattr(loading, "tick_times", lambda *_, **__: TickTimes(1, 10.0, 12.0))
    monkeypatch.setattr(
        loading, "load_lm", lambda *given, **how: reads.append(given) or load_lm(*given, **how)
    )
    told: list[str] = []
    choice = agents.create_stepper(Settings(agent="demo", device="cpu"), told.append)
    assert choice.stepper.slots > 1 and choice.stepper.info.agent == "demo"
    assert len(reads) == 1 and len(told) == len(set(told))
    choice.stepper.shutdown()


def test_a_processor_too_slow_for_the_model_is_told_of() -> None:
    assert agents._slowness(lambda: None) == ""
    assert "Not in real time" in agents._slowness(lambda: time.sleep(0.1))
