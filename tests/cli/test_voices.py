from __future__ import annotations

from pathlib import Path

import pytest
import soundfile
import torch

from rtc_agent.model.checkpoint import load_lm
from rtc_agent.model.folder import ModelFolder
from rtc_agent.model.prompts import VoiceCodes, plan_prompt
from rtc_agent.model.temporal import TemporalTransformer
from rtc_agent.model.tiny import LetterTokenizer
from tests.cli.command import Run, runner
from tests.golden import golden_spec, replay, unpack


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return unpack("e2e_a", tmp_path)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.wav"
    soundfile.write(path, replay("e2e_a")["voice_pcm"].numpy(), 24_000, subtype="FLOAT")
    return path


def test_a_recording_becomes_the_codes_of_the_reference(run: Run, model: Path, clip: Path) -> None:
    outcome = run("voices", "add", "Ana", clip, "--model", model, "--json")
    assert outcome.status == 0 and outcome.result["voice"] == "Ana"
    saved = torch.load(outcome.result["file"], weights_only=True)
    assert torch.equal(saved["codes"].T, replay("e2e_a")["voice_codes"].long())
    # What the reference takes is what its model would have been fed, in the checkpoint's dtype.
    spec = golden_spec("e2e_a")
    weights = load_lm(model / "model.safetensors", spec.lm, dtype=saved["embeddings"].dtype)
    columns = plan_prompt(spec, VoiceCodes(saved["codes"]), ()).columns
    fed = TemporalTransformer(spec.lm, weights).embed(columns[: len(saved["codes"]) - 1])
    assert torch.equal(saved["embeddings"][:, 0, 0], fed)
    listed = run("voices", "list", "--model", model, "--json").result
    assert listed["voices"] == listed["samples"] == ["Ana"] and listed["default"] == "Ana"
    assert run("voices", "list", "--model", model).out == "Ana (default, with a sample)\n"


def test_a_sample_is_cut_from_the_recording_or_spoken_by_the_model(
    run: Run, model: Path, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Letters(LetterTokenizer):
        def vocab_size(self) -> int:
            return golden_spec("e2e_a").lm.text_card

    monkeypatch.setattr(ModelFolder, "text_model", lambda folder: Letters())
    monkeypatch.setattr("rtc_agent.cli.voices._LISTEN_S", 1)
    assert run("voices", "add", "Ana", clip, "--model", model).status == 0
    (model / "voices" / "Ana.sample.wav").unlink()
    (model / "voices" / "Ben.wav").write_bytes(clip.read_bytes())
    assert run("voices", "list", "--model", model, "--json").result["samples"] == []
    for name in ("Ana", "Ben"):
        outcome = run("voices", "sample", name, "--model", model, "--device", "cpu", "--json")
        assert outcome.status == 0, outcome.err
        sample, rate = soundfile.read(outcome.result["file"])
        assert rate == 24_000 and 0 < len(sample) <= 4 * 24_000 and abs(sample).max() > 0.01
    assert run("voices", "list", "--model", model, "--json").result["samples"] == ["Ana", "Ben"]
    assert "no voice" in run("voices", "sample", "Eve", "--model", model).refusal


def test_names_and_recordings_that_cannot_be(run: Run, model: Path, clip: Path) -> None:
    assert "cannot name a voice" in run("voices", "add", "../x", clip, "--model", model).refusal
    assert "There is no file" in run("voices", "add", "A", "none.wav", "--model", model).refusal
    assert run("voices", "add", "A", clip, "--model", model).status == 0
    assert "--replace" in run("voices", "add", "A", clip, "--model", model).refusal
    assert run("voices", "add", "A", clip, "--model", model, "--replace").status == 0


def test_no_voices_and_no_model(run: Run, model: Path, tmp_path: Path) -> None:
    outcome = run("voices", "list", "--model", model)
    assert outcome.status == 0 and outcome.out == "" and "has no voices" in outcome.err
    assert "rtc-agent download" in run("voices", "list", "--model", tmp_path / "no").refusal


def test_listing_is_what_the_command_does_by_itself(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    home = tmp_path / "rtc-agent" / "models"
    home.mkdir(parents=True)
    (home / "personaplex-7b-v1").symlink_to(model)
    (model / "voices").mkdir()
    (model / "voices" / "NATF2.pt").write_bytes(b"")
    assert run("voices").out == "NATF2 (default)\n"
