"""A training that goes on from the model that was exported of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from rtc_agent.errors import CheckpointError
from rtc_agent.training.eight_bit import rounded
from rtc_agent.training.from_model import app, fill, write_rest
from rtc_agent.training.keyed import keyed_state
from rtc_agent.training.pipeline import Seconds, exported
from rtc_agent.training.stage import read_state
from tests.training.test_pipeline import pipeline


def test_a_training_goes_on_from_the_model_that_it_made(tmp_path: Path) -> None:
    there, here, lines = tmp_path / "there", tmp_path / "here", list[str]()
    running = pipeline(there, lines, Seconds(codec=1, decoder=1, lm=1))
    for stage in ("codec", "decoder", "lm", "export"):
        assert running.run(stage)
    files = write_rest(there, tmp_path / "rest")
    assert [f.name for f in files] == ["codec.rest.pt", "decoder.rest.pt", "lm.rest.pt"]
    model = there / "model"
    assert sum(f.stat().st_size for f in files) < 0.2 * (there / "lm.state").stat().st_size
    run = CliRunner().invoke(app, ["fill", str(tmp_path / "rest"), str(model), str(here)])
    assert run.exit_code == 0 and "lm.state" in run.output
    was, now = (read_state(folder / "lm.state") for folder in (there, here))
    assert (now["spent"], now["step"]) == (was["spent"], was["step"])
    assert now["trainer"]["replies"] == was["trainer"]["replies"]
    tensors = keyed_state(was["trainer"]["tensors"])
    for key, tensor in rounded(tensors).items():
        torch.testing.assert_close(
            keyed_state(now["trainer"]["tensors"])[key], tensor, rtol=0, atol=0
        )
    for key, tensor in was["trainer"]["heads"].items():
        assert torch.equal(now["trainer"]["heads"][key], tensor)
    # All it takes to go on and to be exported again; what is rounded stays what it is.
    longer = pipeline(here, lines, Seconds(codec=1, decoder=1, lm=2))
    assert longer.run("lm") and longer.run("export")
    assert any("goes on at step 1" in line for line in lines)
    assert exported(here).codec.read_bytes() == exported(there).codec.read_bytes()


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no stage"):
        write_rest(tmp_path, tmp_path / "rest")
    run = CliRunner().invoke(app, ["fill", str(tmp_path), str(tmp_path), str(tmp_path)])
    assert run.exit_code == 1 and "error: " in run.output
    (tmp_path / "lm.rest.pt").write_bytes(b"torn")
    with pytest.raises(CheckpointError):
        fill(tmp_path, tmp_path, tmp_path)
