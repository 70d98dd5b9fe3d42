"""Replays of the reference, and that a wrong build is caught by them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from rtc_agent.errors import CheckpointError
from rtc_agent.verify import verify
from tests.golden import NAMES, golden, unpack

torch.set_num_threads(1)

CASES = {
    "lm_a": ["plain", "prompt_bundle", "prompt_tokens", "prompt_tokens_b"],
    "moshi_a": ["row_0", "row_1"],
    "mimi_a": ["codes", "decoded"],
    "e2e_a": ["voice_codes", "user_codes", "tokens", "agent_pcm"],
}


@pytest.mark.parametrize("name", NAMES)
def test_every_replay_is_exact(name: str) -> None:
    report = verify(golden(name))
    assert report.ok
    assert [case.name for case in report.cases] == CASES[name]
    for case in report.cases:
        assert case.first_mismatch is None
        assert case.frames > 10
        assert case.max_audio_error is None or 0 < case.max_audio_error < 1e-5
        assert case.max_logit_error is None or 0 < case.max_logit_error < 1e-4


def _change(file: Path, key: str, frame: int) -> None:
    tensors = load_file(file)
    tensors[key] = tensors[key].clone()
    tensors[key][frame] += 1
    save_file(tensors, file)


def test_the_first_frame_that_differs_is_named(tmp_path: Path) -> None:
    folder = unpack("lm_a", tmp_path)
    _change(folder / "replays.safetensors", "prompt_tokens.tokens", 37)
    report = verify(folder)
    assert not report.ok
    found = {case.name: case.first_mismatch for case in report.cases}
    assert found == {
        "plain": None,
        "prompt_bundle": None,
        "prompt_tokens": 37,
        "prompt_tokens_b": None,
    }


def test_audio_that_differs_is_seen(tmp_path: Path) -> None:
    folder = unpack("e2e_a", tmp_path)
    file = folder / "replay.safetensors"
    tensors = load_file(file)
    tensors["agent_pcm"] = tensors["agent_pcm"].clone()
    tensors["agent_pcm"][1920 * 7 + 3] += 2e-5
    save_file(tensors, file)
    report = verify(folder)
    assert not report.ok
    audio = report.cases[-1]
    assert (audio.name, audio.first_mismatch) == ("agent_pcm", 7)
    assert audio.max_audio_error == pytest.approx(2e-5, rel=0.2)


def test_a_window_off_by_one_is_caught(tmp_path: Path) -> None:
    """The reference's full ring loses a position; Moshi's, on the same numbers, does not."""
    folder = unpack("lm_a", tmp_path)
    config = folder / "config.json"
    config.write_text(config.read_text().replace("{", '{"family": "moshi", "dep_q": 8, ', 1))
    assert not verify(folder).ok


def test_json_leaves_out_what_was_not_compared() -> None:
    report = verify(golden("mimi_a")).as_json()
    assert report["ok"] is True
    codes, decoded = report["cases"]
    assert codes == {"name": "codes", "frames": 50, "first_mismatch": None}
    assert set(decoded) == {"name", "frames", "first_mismatch", "max_audio_error"}


def test_a_folder_without_a_replay_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no replay that can be read"):
        verify(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    save_file({"something": torch.zeros(1)}, tmp_path / "replays.safetensors")
    with pytest.raises(CheckpointError, match="unknown layout"):
        verify(tmp_path)
