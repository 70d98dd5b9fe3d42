"""What a deploy file says of the two stages."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rtc_agent.errors import ConfigError


class TalkerStage(BaseModel):
    """Codec encoder and language model."""

    model_config = ConfigDict(extra="forbid")

    device: str | None = Field(None, description="where it runs; left out: the server's `device`")


class Code2WavStage(BaseModel):
    """Codec decoder."""

    model_config = ConfigDict(extra="forbid")

    device: str | None = Field(None, description="where it runs; left out: where the talker does")
    process: bool = Field(True, description="in a process of its own; false: a thread")
    spare: bool = Field(
        False,
        description="have another one loaded and idle, which takes over within a moment when the "
        "first one dies; costs its memory a second time",
    )


class StageSettings(BaseModel):
    """Talker and code2wav set apart. An unknown key is an error, not ignored."""

    model_config = ConfigDict(extra="forbid")

    initial_codec_chunk_frames: int = Field(
        1, ge=1, le=50, description="frames of a call's first chunk, given out as it is there"
    )
    codec_chunk_frames: int = Field(
        1,
        ge=1,
        le=50,
        description="frames of every later chunk; the sound comes one frame less than that later",
    )
    codec_left_context_frames: int = Field(
        125,
        ge=0,
        le=3000,
        description="frames that a code2wav which was started again decodes anew, unheard, to "
        "have its state",
    )
    talker: TalkerStage = TalkerStage(device=None)
    code2wav: Code2WavStage = Code2WavStage(device=None, process=True, spare=False)

    @model_validator(mode="after")
    def _starts_no_slower(self) -> StageSettings:
        if self.initial_codec_chunk_frames > self.codec_chunk_frames:
            raise ValueError("initial_codec_chunk_frames is more than codec_chunk_frames")
        return self

    @property
    def held_frames(self) -> int:
        """How many frames later than its codes a frame is given out, once a call is under way."""
        return self.codec_chunk_frames - 1


def read_stages(path: Path) -> StageSettings:
    """A deploy file in TOML.

    Raises:
        ConfigError: it cannot be read, has an unknown key, or a value that does not fit.
    """
    try:
        return StageSettings.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}.") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'stages'}: {fault['msg']}"
            for fault in error.errors()
        )
        raise ConfigError(f"{path} does not fit: {faults}.") from error
