"""A training that goes on elsewhere from its weights alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from rtc_agent.errors import CheckpointError
from rtc_agent.training import slim
from rtc_agent.training.budget import Budget
from rtc_agent.training.pipeline import Seconds, exported
from rtc_agent.training.slim import slim_files, write_slim
from rtc_agent.training.stage import Trainer, read_state, run_stage
from tests.training.test_pipeline import pipeline
from tests.training.test_resuming import Ticking, codec, lm


def _run(trainer: Trainer, seconds: int, state: Path, run: float = float("inf")) -> bool:
    ticking = Ticking(trainer)
    return run_stage(ticking, Budget(seconds, run, ticking.now), state, lambda _: None)


def test_the_language_model_goes_on_from_its_weights(tmp_path: Path) -> None:
    there, here = tmp_path / "there" / "lm.state", tmp_path / "here" / "lm.state"
    assert not _run(lm(), 5, there, 3)
    learned = read_state(there)
    files = write_slim(there, here.parent, most=60_000)
    assert len(files) > 1 and files == slim_files(here)
    assert sum(f.stat().st_size for f in files) < 0.5 * there.stat().st_size
    begun = read_state(here)
    for group in ("tensors", "heads"):
        assert begun["trainer"][group].keys() == learned["trainer"][group].keys()
        for key, tensor in learned["trainer"][group].items():
            torch.testing.assert_close(begun["trainer"][group][key], tensor, rtol=1e-3, atol=1e-6)
    assert (begun["spent"], begun["step"]) == (3, 3)
    going = lm()
    assert not _run(going, 5, here, 1)
    # A batch of conversations of its own, and the learning rate rises once more.
    assert going._store.added == 2 and going._made == learned["trainer"]["made"] + 1
    assert going._optimizer.param_groups[0]["lr"] < 0.01 * going._run.peak
    assert read_state(here)["trainer"]["began"] == 3
    assert _run(lm(), 5, here)
    assert read_state(here)["step"] == 5


def test_what_is_done_needs_no_more_than_its_weights(tmp_path: Path) -> None:
    state = tmp_path / "there" / "codec.state"
    assert _run(codec(), 2, state)
    write_slim(state, tmp_path)
    assert _run(codec(), 2, tmp_path / "codec.state")
    with pytest.raises(CheckpointError, match="codec cannot go on from its weights alone"):
        _run(codec(), 3, tmp_path / "codec.state")


def test_files_that_are_missing_are_told(tmp_path: Path) -> None:
    state = tmp_path / "there" / "lm.state"
    assert not _run(lm(), 5, state, 1)
    files = write_slim(state, tmp_path, most=60_000)
    files[0].unlink()
    with pytest.raises(CheckpointError, match=f"lm: {len(files) - 1} of {len(files)} files"):
        read_state(tmp_path / "lm.state")
    files[1].write_bytes(b"torn")
    write_slim(state, tmp_path)
    assert len(slim_files(tmp_path / "lm.state")) == 1
    slim_files(tmp_path / "lm.state")[0].write_bytes(b"torn")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_state(tmp_path / "lm.state")


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    app = slim.typer.Typer()
    app.command()(slim._main)
    run = CliRunner().invoke(app, [str(tmp_path / "lm.state"), str(tmp_path)])
    assert run.exit_code == 1 and "run the stage before" in run.output
    torch.save(
        {"trainer": {"tensors": {"a": torch.ones(2)}}, "spent": 1, "step": 1}, tmp_path / "lm.state"
    )
    run = CliRunner().invoke(app, [str(tmp_path / "lm.state"), str(tmp_path / "out")])
    assert run.exit_code == 0 and "lm.slim-1of1.pt" in run.output


def test_a_model_is_exported_from_weights_alone(tmp_path: Path) -> None:
    there, here, lines = tmp_path / "there", tmp_path / "here", list[str]()
    running = pipeline(there, lines, Seconds(codec=2, decoder=2, lm=2))
    for stage in ("codec", "decoder", "lm"):
        assert running.run(stage)
        write_slim(there / f"{stage}.state", here)
    assert pipeline(here, lines, running.seconds).run("export")
    assert exported(here).spec.lm == running.spec.lm
