"""Every setting, its meaning and its default. TOML file < environment `RTC_AGENT_*` < flags."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from rtc_agent.errors import ConfigError

Agent = Literal["auto", "echo", "demo", "tiny", "personaplex", "moshi"]


class IceServer(BaseModel):
    """A STUN or TURN server, as browsers write it. An unknown key is an error, not ignored."""

    model_config = ConfigDict(extra="forbid")

    urls: str | list[str]
    username: str | None = None
    credential: str | None = None


class Settings(BaseSettings):
    """The server's settings."""

    model_config = SettingsConfigDict(
        env_prefix="RTC_AGENT_", extra="forbid", env_ignore_empty=True
    )

    host: str = Field("127.0.0.1", description="address the web server listens on")
    port: int = Field(8080, ge=0, le=65535, description="its port; 0 takes a free one")
    agent: Agent = Field(
        "auto", description="who answers: auto takes the best this machine can run"
    )
    model: Path | None = Field(None, description="folder of the model's files")
    device: str = Field("auto", description="where the model runs: auto, cpu, cuda, cuda:1 …")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="of weights, keys and values; auto is bfloat16 on a GPU, else float32"
    )
    cpu_threads: int = Field(1, ge=1, le=256, description="threads of a model that runs on the CPU")
    sessions: int = Field(4, ge=1, le=1024, description="calls at once; one more gets a 503")
    media_workers: int = Field(
        0, ge=0, le=64, description="processes for calls' media; 0: one process does everything"
    )
    ice_hosts: list[str] = Field(
        [], description="offer only these local addresses to callers; empty offers all but loopback"
    )
    ice_servers: list[IceServer] = Field(
        [], description="STUN and TURN servers for the server and the page; none is ever assumed"
    )
    allowed_origins: list[str] = Field(
        [],
        description="origins whose pages may use this server beside its own; * lets in every one",
    )
    whip_strict: bool = Field(
        False, description="WHIP as its RFC has it: callers are heard only, and hear nothing"
    )
    listen_token: SecretStr = Field(
        SecretStr(""), description="key for listening in on calls by WHEP; empty: nobody may"
    )
    connect_timeout_s: float = Field(
        15, gt=0, description="seconds an offer may take to become a connection"
    )
    vanished_after_s: float = Field(
        8, gt=0, description="seconds without any packet after which a caller counts as gone"
    )
    reconnect_grace_s: float = Field(
        10,
        ge=0,
        description="seconds that a call whose connection was lost waits for its caller; 0: none",
    )
    idle_limit_s: float = Field(
        300, ge=0, description="seconds a caller may say nothing before the call ends; 0: no limit"
    )
    call_limit_s: float = Field(3600, ge=0, description="longest call in seconds; 0: no limit")
    limit_warning_s: float = Field(
        30, ge=0, description="seconds before either limit at which the caller is told"
    )
    stop_timeout_s: float = Field(
        8, gt=0, description="seconds that a stopping server gives its calls to close"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least severe lines that are logged"
    )


def dump(settings: Settings) -> str:
    """The settings as JSON that `Settings.model_validate_json` takes, secrets in the clear: for a
    process of our own, never for a log."""
    values = settings.model_dump(mode="json")
    for name, value in settings:
        if isinstance(value, SecretStr):
            values[name] = value.get_secret_value()
    return json.dumps(values)


def load(file: Path | None = None, **flags: Any) -> Settings:
    """Settings from a TOML file, the environment and flags; flags of value None are not set.

    Raises:
        ConfigError: a file that cannot be read, an unknown key, a value that does not fit; the
            message names each.
    """

    class FromFile(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)

    given = {name: value for name, value in flags.items() if value not in (None, [], ())}
    if file is not None and not file.is_file():
        raise ConfigError(f"The config file {file} does not exist or is not a file.")
    try:
        return FromFile(**given)
    except OSError as error:
        raise ConfigError(f"The config file {file} cannot be read: {error.strerror}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The config file {file} is not valid TOML: {error}.") from error
    except SettingsError as error:
        raise ConfigError(f"The environment does not fit: {error}; lists are JSON.") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'settings'}: {fault['msg']}"
            for fault in error.errors()
        )
        raise ConfigError(
            f"Settings that do not fit: {faults}. `rtc-agent config` lists what there is."
        ) from error
