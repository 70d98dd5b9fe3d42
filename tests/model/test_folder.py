from __future__ import annotations

import json
from pathlib import Path

import pytest

from rtc_agent.errors import CheckpointError
from rtc_agent.model.folder import ModelFolder
from rtc_agent.model.spec import MOSHI

RELEASED = (
    "model.safetensors",
    "tokenizer-e351c8d8-checkpoint125.safetensors",
    "tokenizer_spm_32k_3.model",
)


def fill(folder: Path, *names: str, config: object = None) -> Path:
    for name in names:
        (folder / name).write_bytes(b"")
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_released_layout(tmp_path: Path) -> None:
    found = ModelFolder.open(fill(tmp_path, *RELEASED, config={"model_type": "personaplex"}))
    assert [found.lm.name, found.codec.name] == list(RELEASED[:2])
    assert found.tokenizer == tmp_path / RELEASED[2]
    assert found.spec.family.name == "personaplex" and found.spec.lm.dim == 4096


def test_a_folder_without_config_is_of_the_family_asked_for(tmp_path: Path) -> None:
    assert ModelFolder.open(fill(tmp_path, *RELEASED), MOSHI).spec.family is MOSHI


def test_config_may_name_the_files(tmp_path: Path) -> None:
    files = {"lm": "lm.safetensors", "codec": "codec.safetensors", "tokenizer": "text.model"}
    found = ModelFolder.open(fill(tmp_path, *files.values(), config={"files": files}))
    assert [found.lm.name, found.codec.name] == ["lm.safetensors", "codec.safetensors"]
    assert found.tokenizer is not None and found.tokenizer.name == "text.model"


@pytest.mark.parametrize("name", ["../lm.safetensors", "/etc/passwd", "not-there"])
def test_config_names_files_of_its_own_folder_alone(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "lm.safetensors").write_bytes(b"")
    fill(folder, *RELEASED, config={"files": {"lm": name}})
    with pytest.raises(CheckpointError, match="has no"):
        ModelFolder.open(folder)


def test_a_config_that_names_files_wrongly_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="files as 5; expected an object"):
        ModelFolder.open(fill(tmp_path, *RELEASED, config={"files": 5}))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no model\.safetensors; `rtc-agent download`"):
        ModelFolder.open(fill(tmp_path, *RELEASED[1:]))
    with pytest.raises(CheckpointError, match="There is no folder"):
        ModelFolder.open(tmp_path / "none")


def test_half_written_file_is_called_that(tmp_path: Path) -> None:
    fill(tmp_path, *RELEASED[1:], "model.safetensors.part")
    with pytest.raises(CheckpointError, match=r"model\.safetensors is half-written"):
        ModelFolder.open(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "[1]", "{", "\x00", pytest.param("[" * 100_000, id="deep")]
)
def test_damaged_config(tmp_path: Path, content: str) -> None:
    (fill(tmp_path, *RELEASED) / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json is damaged"):
        ModelFolder.open(tmp_path)


def test_text_model_missing_or_damaged(tmp_path: Path) -> None:
    without = ModelFolder.open(fill(tmp_path, *RELEASED[:2]))
    assert without.tokenizer is None
    with pytest.raises(CheckpointError, match="has no tokenizer_spm"):
        without.text_model()
    with pytest.raises(CheckpointError, match="is damaged"):
        ModelFolder.open(fill(tmp_path, *RELEASED)).text_model()
