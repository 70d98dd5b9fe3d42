from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from tests.cli.command import runner
from tests.golden import golden, unpack


def test_a_recorded_run_is_reproduced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = runner(monkeypatch, capsys)("verify", golden("e2e_a"), "--json")
    assert outcome.status == 0 and outcome.result["ok"] is True
    assert outcome.result["cases"]
    for case in outcome.result["cases"]:
        assert case["frames"] > 0 and case["first_mismatch"] is None, case


def test_a_difference_fails_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = unpack("lm_a", tmp_path)
    replays = load_file(folder / "replays.safetensors")
    replays["plain.tokens"][33, 4] += 1
    save_file(replays, folder / "replays.safetensors")
    run = runner(monkeypatch, capsys)
    outcome = run("verify", folder, "--json")
    assert outcome.status == 1 and outcome.result["ok"] is False
    found = {case["name"]: case["first_mismatch"] for case in outcome.result["cases"]}
    assert found.pop("plain") == 33 and set(found.values()) == {None}
    assert "differs from frame 33" in run("verify", folder).out


def test_what_cannot_be_checked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner(monkeypatch, capsys)
    assert "has no config.json" in run("verify", tmp_path).refusal
    assert "'quark' is no device" in run("verify", golden("lm_a"), "--device", "quark").refusal
