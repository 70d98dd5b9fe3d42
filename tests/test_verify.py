"""Replays of the reference, and that a wrong build is caught by them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rtc_agent.errors import CheckpointError, NotEnoughMemory
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
    with pytest.raises(CheckpointError, match="no folder"):
        verify(tmp_path / "none")
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        verify(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"has no replay\.safetensors or"):
        verify(tmp_path)
    save_file({"something": torch.zeros(1)}, tmp_path / "replays.safetensors")
    with pytest.raises(CheckpointError, match="unknown layout"):
        verify(tmp_path)
    save_file({"persona_tokens": torch.zeros(1)}, tmp_path / "replays.safetensors")
    with pytest.raises(CheckpointError, match="unknown layout"):
        verify(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(CheckpointError, match=r"config\.json is damaged"):
        verify(tmp_path)


def _drop(tensor: Tensor) -> None:
    return None


def _longer(tensor: Tensor) -> Tensor:
    return torch.cat((tensor, tensor))


def _nothing(tensor: Tensor) -> Tensor:
    return tensor[:0]


def _unknown_id(tensor: Tensor) -> Tensor:
    wrong = tensor.clone()
    wrong.view(-1)[-1] = 30_000
    return wrong


Damage = Callable[[Tensor], Tensor | None]


@pytest.mark.parametrize(
    ("name", "key", "damage"),
    [
        ("lm_a", "user_codes", _drop),
        ("lm_a", "user_codes", _unknown_id),
        ("lm_a", "voice_codes", _unknown_id),
        ("lm_a", "voice_bundle.cache", _drop),
        ("lm_a", "voice_bundle.embeddings", _nothing),
        ("lm_a", "persona_tokens", _unknown_id),
        ("lm_a", "plain.tokens", _nothing),
        ("moshi_a", "user_codes", _drop),
        ("moshi_a", "user_codes", _longer),
        ("moshi_a", "tokens", _nothing),
        ("moshi_a", "text_logits_f64", _nothing),
        ("mimi_a", "codes", _drop),
        ("mimi_a", "codes", _unknown_id),
        ("mimi_a", "pcm_i16", _longer),
        ("mimi_a", "decoded_f32", _nothing),
        ("e2e_a", "tokens", _drop),
        ("e2e_a", "tokens", _nothing),
        ("e2e_a", "tokens", _longer),
        ("e2e_a", "user_pcm", _longer),
        ("e2e_a", "agent_pcm", _nothing),
        ("e2e_a", "voice_codes", _drop),
        ("e2e_a", "voice_pcm_normalized", _nothing),
        ("e2e_a", "persona_tokens", _drop),
    ],
)
def test_a_damaged_recording_is_refused_by_name(
    tmp_path: Path, name: str, key: str, damage: Damage
) -> None:
    """It neither ends in a trace nor agrees because nothing is left to compare."""
    file = next(golden(name).glob("replay*.safetensors"))
    for other in golden(name).iterdir():
        if other != file:
            (tmp_path / other.name).symlink_to(other)
    tensors = load_file(file)
    damaged = damage(tensors.pop(key))
    if damaged is not None:
        tensors[key] = damaged
    save_file(tensors, tmp_path / file.name)
    with pytest.raises(CheckpointError, match=rf"{file.name} has .*\b{re.escape(key)}\b") as caught:
        verify(tmp_path)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("file", ["replays.safetensors", "model.safetensors"])
@pytest.mark.parametrize("keep", [0, 100, -100])
def test_a_file_cut_short_is_refused(tmp_path: Path, file: str, keep: int) -> None:
    path = unpack("moshi_a", tmp_path) / file
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=rf"{file} (is damaged|cannot be read)"):
        verify(path.parent)


def test_a_config_too_large_for_the_machine_is_refused_unloaded(tmp_path: Path) -> None:
    config = unpack("lm_a", tmp_path) / "config.json"
    config.write_text(config.read_text().replace('"context": 24', '"context": 16000000'))
    with pytest.raises(NotEnoughMemory, match="GiB are free"):
        verify(config.parent)


def test_a_recording_may_have_no_logits(tmp_path: Path) -> None:
    folder = unpack("moshi_a", tmp_path)
    file = folder / "replays.safetensors"
    tensors = load_file(file)
    del tensors["text_logits_f64"]
    save_file(tensors, file)
    report = verify(folder)
    assert report.ok and all(case.max_logit_error is None for case in report.cases)
