"""The tokenizer is made by a process of its own, once."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rtc_agent.errors import CheckpointError, MissingDependency, TrainingFailed
from rtc_agent.training import tokenizer
from rtc_agent.training.pipeline import ModelText, Pipeline
from rtc_agent.training.tokenizer import TOKENIZER, train_tokenizer
from tests.training.small_data import SmallData, plain
from tests.training.test_pipeline import SPEC

TEXTS = SmallData().texts


def _pipeline(out: Path, data: SmallData) -> Pipeline:
    return Pipeline(out, data, plain, torch.device("cpu"), lambda _: None, SPEC)


def test_nothing_heavy_is_loaded_where_it_is_made() -> None:
    loaded = "import sys, rtc_agent.training.tokenizer; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_ids_are_the_text_rows(tmp_path: Path) -> None:
    path = tmp_path / TOKENIZER
    train_tokenizer(TEXTS, path, SPEC.lm)
    text = ModelText(path)
    assert 3 < text.pieces <= SPEC.lm.text_card
    ids = text.encode("It is two.")
    assert ids and not {SPEC.lm.text_pad, SPEC.lm.text_epad} & set(ids)
    with pytest.raises(CheckpointError, match="pieces, the model 8"):
        small = replace(SPEC, lm=replace(SPEC.lm, text_card=8))
        replace(_pipeline(tmp_path, SmallData()), spec=small)._tokenizer()


def test_one_that_came_with_the_data_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made.model"
    train_tokenizer(TEXTS, made, SPEC.lm)

    def again(*_: object) -> None:
        raise AssertionError("it was there already")

    monkeypatch.setattr("rtc_agent.training.pipeline.train_tokenizer", again)
    path = _pipeline(tmp_path, SmallData(tokenizer=made))._tokenizer()
    assert path == tmp_path / TOKENIZER and path.read_bytes() == made.read_bytes()
    made.unlink()
    assert _pipeline(tmp_path, SmallData())._tokenizer() == path


def test_one_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrainingFailed, match="no tokenizer in 0 s"):
        train_tokenizer(TEXTS, tmp_path / TOKENIZER, SPEC.lm, seconds=0.01)
    assert not list(tmp_path.iterdir())
    for status, why, error in ((1, b"no such pieces", TrainingFailed), (3, b"", MissingDependency)):
        ended = subprocess.CompletedProcess([], status, b"", why)
        monkeypatch.setattr(tokenizer.subprocess, "run", lambda *_, e=ended, **__: e)
        with pytest.raises(error, match=why.decode() or "pip install"):
            train_tokenizer(TEXTS, tmp_path / TOKENIZER, SPEC.lm)
