"""Training and evaluating the demo agent, by command."""

from __future__ import annotations

from pathlib import Path

import pytest

import rtc_agent.training.data as training_data
from rtc_agent.training.evaluation import report
from tests.cli.command import Run, runner
from tests.training.small_data import SmallData
from tests.training.small_model import write_small_model


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setattr(training_data, "open_data", lambda folder: SmallData())
    return runner(monkeypatch, capsys)


def test_a_stage_that_is_none_is_refused(run: Run, tmp_path: Path) -> None:
    refused = run("train-demo", "--data", tmp_path, "--out", tmp_path, "--stage", "sing")
    assert "'sing' is no stage; there are codec, decoder, lm, export and all" in refused.refusal


def test_a_stage_without_the_one_before_is_refused(run: Run, tmp_path: Path) -> None:
    refused = run(
        "train-demo", "--data", tmp_path, "--out", tmp_path / "out", "--stage", "lm", "--json"
    )
    assert "run the stage before this one" in refused.refusal


def test_a_model_is_measured(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_ROOMS", ())
    folder = write_small_model(tmp_path / "model")
    outcome = run(
        *("evaluate-demo", "--data", tmp_path, "--model", folder, "--device", "cpu"),
        *("--most", 2, "--sets", "whis", "--json"),
    )
    assert outcome.status == 0, outcome.err
    (whistler,) = outcome.result["sets"]
    assert whistler["calls"] == 2 and whistler["right"] == [0, 2]
    assert "| whistler | 0/2 = 0.0 % |" in outcome.out


def test_a_set_that_is_none_is_refused(run: Run, tmp_path: Path) -> None:
    refused = run("evaluate-demo", "--data", tmp_path, "--model", tmp_path, "--sets", "humans")
    assert "there are: whistler" in refused.refusal
