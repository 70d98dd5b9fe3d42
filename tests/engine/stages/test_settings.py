"""A deploy file: what it may say, and what is said of one that does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtc_agent.config import Settings, dump, load
from rtc_agent.engine.agents import create_stepper
from rtc_agent.engine.stages.settings import StageSettings, read_stages
from rtc_agent.errors import ConfigError

DEPLOY = """
initial_codec_chunk_frames = 1
codec_chunk_frames = 5
codec_left_context_frames = 10
talker = { device = "cuda:0" }

[code2wav]
device = "cuda:1"
process = false
"""


def test_a_file_says_chunks_and_places(tmp_path: Path) -> None:
    file = tmp_path / "stages.toml"
    file.write_text(DEPLOY)
    stages = read_stages(file)
    assert (stages.codec_chunk_frames, stages.codec_left_context_frames) == (5, 10)
    assert (stages.talker.device, stages.code2wav.device) == ("cuda:0", "cuda:1")
    assert not stages.code2wav.process
    assert stages.held_frames == 4


def test_an_empty_file_is_two_stages_in_two_processes_without_delay(tmp_path: Path) -> None:
    file = tmp_path / "stages.toml"
    file.touch()
    assert read_stages(file) == StageSettings()
    assert StageSettings().held_frames == 0
    assert StageSettings().code2wav.process


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("codec_chunks = 5", "codec_chunks"),
        ("codec_chunk_frames = 0", "codec_chunk_frames: .*greater than or equal to 1"),
        ("initial_codec_chunk_frames = 3", "more than codec_chunk_frames"),
        ("[code2wav]\nthread = true", "code2wav.thread"),
        ("codec_chunk_frames = ", "no TOML"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "stages.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_stages(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_stages(tmp_path / "other.toml")


def test_a_config_file_may_hold_them_as_a_table_and_children_read_them(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[stages]\ncodec_chunk_frames = 2\n[stages.code2wav]\nprocess = false\n")
    settings = load(config)
    assert settings.stages is not None
    assert settings.stages.codec_chunk_frames == 2
    assert Settings.model_validate_json(dump(settings)).stages == settings.stages


def test_the_echo_agent_has_no_stages() -> None:
    with pytest.raises(ConfigError, match="no stages"):
        create_stepper(load(agent="echo", stages=StageSettings()))
