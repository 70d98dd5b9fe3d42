"""Every setting, its meaning and its default. TOML file < environment `RTC_AGENT_*` < flags."""

from __future__ import annotations

import difflib
import ipaddress
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from rtc_agent.errors import ConfigError

_ICE_URL = re.compile(r"(?:stun|turn)s?:[^\s/?]+(?:\?transport=(?:udp|tcp))?")

PREFIX = "RTC_AGENT_"
"""Of environment variables that are settings."""
OTHER_VARIABLES = {"RTC_AGENT_SIP_PASSWORD"}
"""Variables of that prefix that are no settings of the server: commands read them."""

Agent = Literal["auto", "echo", "demo", "tiny", "personaplex", "moshi"]


class IceServer(BaseModel):
    """A STUN or TURN server, as browsers write it. An unknown key is an error, not ignored."""

    model_config = ConfigDict(extra="forbid")

    urls: str | list[str]
    username: str | None = None
    credential: str | None = None

    @field_validator("urls")
    @classmethod
    def _are_ice_urls(cls, urls: str | list[str]) -> str | list[str]:
        for url in [urls] if isinstance(urls, str) else urls:
            if not _ICE_URL.fullmatch(url):
                raise ValueError(f"{url!r} is no STUN or TURN address such as stun:HOST:3478")
        return urls


class Settings(BaseSettings):
    """The server's settings."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", env_ignore_empty=True)

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
        9,
        ge=0,
        description="seconds after a caller's last packet that a call whose connection was lost is "
        "kept for it; 0: not at all",
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

    @field_validator("ice_hosts")
    @classmethod
    def _are_addresses(cls, hosts: list[str]) -> list[str]:
        for host in hosts:
            ipaddress.ip_address(host)
        return hosts


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
    _refuse_unknown_environment()
    try:
        return FromFile(**given)
    except OSError as error:
        raise ConfigError(f"The config file {file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The config file {file} is not valid TOML: {error}.") from error
    except SettingsError as error:
        raise ConfigError(f"The environment does not fit: {_explain(error)}.") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'settings'}: "
            f"{_WORDS.get(fault['type'], fault['msg'])}"
            for fault in error.errors()
        )
        raise ConfigError(
            f"Settings that do not fit: {faults}. `rtc-agent config` lists what there is."
        ) from error


_WORDS = {"extra_forbidden": "there is no such setting"}
"""What is said in place of the library's words."""


def _refuse_unknown_environment() -> None:
    """A variable of a wrong name is an error as a wrong key in a file is, not a setting that is
    quietly not made."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | OTHER_VARIABLES
    for name in sorted(os.environ):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1)
            meant = f" Is {near[0]} meant?" if near else ""
            raise ConfigError(
                f"The environment has {name}, and there is no such setting.{meant} "
                "`rtc-agent config` lists what there is."
            )


def _explain(error: SettingsError) -> str:
    if (found := re.search(r'field "(\w+)"', str(error))) is None:
        return str(error)
    example = {"ice_servers": '[{"urls": "stun:HOST:3478"}]'}.get(found[1], '["…"]')
    return f"{PREFIX}{found[1].upper()} must be JSON, such as '{example}'"
