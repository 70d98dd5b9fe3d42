"""The tick benchmark on a model of the tiny sizes."""

from __future__ import annotations

import json

import pytest
import torch
import typer
from typer.testing import CliRunner

from rtc_agent.bench.peer import measure_moshi, moshi_version
from rtc_agent.bench.percentiles import Percentiles
from rtc_agent.bench.report import measure
from rtc_agent.bench.tick import TickBench, read_bytes
from rtc_agent.cli.bench import register
from rtc_agent.engine.random_model import PROMPT_FRAMES, random_model
from rtc_agent.errors import ConfigError, InvalidRequest
from rtc_agent.model.backend import TORCH
from rtc_agent.model.tiny import TINY_SPEC

torch.set_num_threads(1)

GIVEN = {
    "sessions": "1",
    "windows": "empty",
    "ticks": 20,
    "device": "cpu",
    "dtype": "auto",
    "kv_dtype": "auto",
    "weights": "model",
    "kernels": "auto",
    "tiny": True,
    "peer": False,
}


def run(**changes: object) -> dict[str, object]:
    return measure(**(GIVEN | changes), progress=lambda row: None)  # type: ignore[arg-type]


def test_rows_are_what_was_asked_for() -> None:
    app = typer.Typer()
    register(app)
    command = "bench tick --tiny --device cpu --sessions 1,2 --window full,empty --ticks 20 --json"
    result = CliRunner().invoke(app, command.split(), catch_exceptions=False)
    report = json.loads(result.stdout.splitlines()[-1])
    rows = [(row["sessions"], row["window"]) for row in report["rows"]]
    assert rows == [(1, "full"), (1, "empty"), (2, "full"), (2, "empty")]
    for row in report["rows"]:
        assert 0 < row["tick_ms"]["p50"] <= row["tick_ms"]["p99"] <= row["tick_ms"]["max"]
    opened = report["rows"][0]["open"]
    assert opened["frames"] == PROMPT_FRAMES
    assert 0 < opened["known_ms"] < opened["cold_ms"]
    assert report["sizes"] == "tiny" and report["ok"] is True


def test_a_row_for_a_person() -> None:
    app = typer.Typer()
    register(app)
    command = "bench tick --tiny --device cpu --sessions 1 --window empty --ticks 20"
    result = CliRunner().invoke(app, command.split(), catch_exceptions=False)
    assert "1 empty" in result.stdout and "tick p50" in result.stdout


@pytest.mark.parametrize(
    "changes",
    [
        {"sessions": "many"},
        {"sessions": "0"},
        {"windows": "half"},
        {"kv_dtype": "int4"},
        {"weights": "int3"},
        {"kernels": "on"},
        {"dtype": "int8"},
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        run(**changes)


def test_narrow_keys_are_refused_without_the_kernels() -> None:
    with pytest.raises(ConfigError, match="--kv-dtype model"):
        run(kv_dtype="int8")


def test_narrow_weights_are_measured_as_narrow() -> None:
    device, wide = torch.device("cpu"), torch.float32
    full = read_bytes(random_model(device, wide, tiny=True))
    narrow = random_model(device, wide, tiny=True, form="int8")
    assert read_bytes(narrow) < 0.7 * full
    bench = TickBench(narrow, TORCH, "float32", ticks=3)
    assert [row.sessions for row in bench.rows(1, ["empty"])] == [1]


def test_the_positions_are_those_of_the_window() -> None:
    parts = random_model(torch.device("cpu"), torch.float32, tiny=True)
    bench = TickBench(parts, TORCH, "float32", ticks=3)
    seen = []
    time = bench._time

    def watched(stepper, *args):  # type: ignore[no-untyped-def]
        seen.append(stepper.banks[0].lm.state.position.item())
        return time(stepper, *args)

    bench._time = watched  # type: ignore[method-assign]
    list(bench.rows(1, ["full", "minute", "empty"]))
    window = TINY_SPEC.lm.window
    assert seen == [window, min(750, window), 0]


def test_percentiles() -> None:
    assert Percentiles.of([1.0] * 99 + [5.0]).max == 5.0
    assert Percentiles.of([2.0, 2.0]) == Percentiles(2.0, 2.0, 2.0)


@pytest.mark.skipif(moshi_version() is None, reason="the moshi package is not installed")
def test_the_peer_is_measured() -> None:
    small = {"dim": 64, "num_layers": 1, "num_heads": 2, "depformer_dim": 32, "context": 20,
             "depformer_num_layers": 1, "depformer_num_heads": 2, "text_card": 50,
             "depformer_dim_feedforward": 64}  # fmt: skip
    row = measure_moshi(1, 3, torch.device("cpu"), small)
    assert row.tick_ms.p50 > 0
