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
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from rtc_agent.engine.stages.settings import StageSettings
from rtc_agent.errors import ConfigError
from rtc_agent.key_setting import KeySetting
from rtc_agent.telephony.config import TelephonySettings

_ICE_URL = re.compile(r"(?:stun|turn)s?:[^\s/?]+(?:\?transport=(?:udp|tcp))?")

PREFIX = "RTC_AGENT_"
"""Of environment variables that are settings."""
OTHER_VARIABLES = {"RTC_AGENT_SIP_PASSWORD", "RTC_AGENT_KEY"}
"""Variables of that prefix that are no settings of the server: commands read them."""

Agent = Literal["auto", "echo", "demo", "tiny", "mirror", "personaplex", "moshi"]


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
        "auto", description="of weights; auto is bfloat16 on a GPU, else float32"
    )
    kernels: Literal["auto", "off"] = Field(
        "auto", description="on a GPU, our kernels and one graph a tick; off is plain torch, slower"
    )
    kv_dtype: Literal["auto", "model", "int8"] = Field(
        "auto",
        description="of keys and values: auto and model are the weights' own, int8 holds twice the "
        "calls on a GPU",
    )
    weights: Literal["model", "int8", "int4"] = Field(
        "model",
        description="form of the transformers' matrices: model is of dtype; int8 and int4 fit a "
        "smaller GPU and are less exact",
    )
    stages: StageSettings | None = Field(
        None,
        description="talker and code2wav set apart, on two devices or processes: keys "
        "initial_codec_chunk_frames, codec_chunk_frames, codec_left_context_frames, and tables "
        "talker (device) and code2wav (device, process); left out: one step does both",
    )
    cpu_threads: int = Field(1, ge=1, le=256, description="threads of a model that runs on the CPU")
    sessions: int = Field(4, ge=1, le=1024, description="calls at once; one more gets a 503")
    banks: int = Field(
        1,
        ge=1,
        le=8,
        description="equal parts of the sessions, stepped one after another within a frame: a "
        "caller waits for the step of his part alone",
    )
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
    allowed_hosts: list[str] = Field(
        [],
        description="names, beside localhost, by which a server on loopback without keys may be "
        "called, as by a proxy that passes its own name on",
    )
    ice_ports: str = Field(
        "",
        pattern=r"^(\d{1,5}-\d{1,5})?$",
        description="UDP ports for calls' media, as 40000-40100, one a call on each address; "
        "empty: the system chooses",
    )
    public_ip: str | None = Field(
        None, description="address announced to callers, behind one-to-one NAT"
    )
    telephony: TelephonySettings = Field(
        TelephonySettings(), description="the phone line; docs/telephone.md has its settings"
    )
    whip_strict: bool = Field(
        False, description="WHIP as its RFC has it: callers are heard only, and hear nothing"
    )
    listen_token: SecretStr = Field(
        SecretStr(""), description="key for listening in on calls by WHEP; empty: nobody may"
    )
    keys: list[KeySetting] = Field(
        [],
        description="keys that callers and operators bring as bearer: name, one of secret, file or "
        "sha256, scopes of call, listen and admin, max_calls; none: no key is needed",
    )
    token_secret: SecretStr = Field(
        SecretStr(""),
        description="what client secrets are signed with; empty: made anew at every start. Servers "
        "that share it take each other's",
    )
    insecure_public: bool = Field(
        False, description="listen on other addresses than loopback although there are no keys"
    )
    trusted_proxies: list[str] = Field(
        [], description="addresses of proxies whose X-Forwarded-For is believed"
    )
    offers_per_minute: float = Field(
        60, ge=0, description="calls that one address other than loopback may ask for; 0: no limit"
    )
    key_offers_per_minute: float = Field(
        0, ge=0, description="calls that may be asked for with one key; 0: no limit"
    )
    calls_per_address: int = Field(0, ge=0, description="calls at once of one address; 0: no limit")
    tls_cert: Path | None = Field(
        None, description="certificate chain in PEM; with it the server speaks HTTPS"
    )
    tls_key: Path | None = Field(None, description="its private key in PEM")
    turn_secret: SecretStr = Field(
        SecretStr(""),
        description="secret shared with the TURN servers in ice_servers, which get short-lived "
        "credentials by it (coturn: use-auth-secret)",
    )
    turn_ttl_s: int = Field(
        3600, ge=60, description="seconds for which such credentials open a relay"
    )
    own_relay: bool = Field(
        True,
        description="open a TURN relay for this side of every call too; false, where callers or "
        "their relays reach the server's UDP ports, spares the relay a port a call",
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
    drain_s: float = Field(
        0,
        ge=0,
        description="seconds that calls in progress may go on once the server is told to stop; no "
        "new ones are taken meanwhile",
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="lines for people, or one JSON object a line"
    )
    call_records: Path | None = Field(
        None, description="file that gets one line of JSON for every call that ended"
    )
    traces: str = Field(
        "",
        description="OTLP address that gets an OpenTelemetry trace of every call, such as "
        "http://127.0.0.1:4318/v1/traces; empty: none",
    )
    recordings: str = Field(
        "",
        description="folder, or fsspec address such as s3://bucket/prefix, for recordings of calls "
        "whose caller consented; empty: nothing is recorded",
    )
    recording_format: Literal["ogg", "wav"] = Field(
        "ogg", description="of recordings: Opus in Ogg, or WAV; caller left, agent right"
    )
    recording_days: float = Field(
        30, ge=0, description="days after which recordings are deleted; 0: never"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least severe lines that are logged"
    )

    @field_validator("ice_hosts", "trusted_proxies")
    @classmethod
    def _are_addresses(cls, hosts: list[str]) -> list[str]:
        for host in hosts:
            ipaddress.ip_address(host)
        return hosts

    @field_validator("keys")
    @classmethod
    def _are_of_different_names(cls, keys: list[KeySetting]) -> list[KeySetting]:
        if len({key.name for key in keys}) < len(keys):
            raise ValueError("two keys have the same name")
        return keys

    @model_validator(mode="after")
    def _banks_are_equal(self) -> Settings:
        if self.sessions % self.banks:
            raise ValueError(
                f"{self.sessions} sessions cannot be cut into {self.banks} equal banks"
            )
        if self.banks > 1 and self.stages is not None:
            raise ValueError("banks and stages exclude each other; leave one of them out")
        return self

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Settings:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together")
        return self


def dump(settings: Settings) -> str:
    """The settings as JSON that `Settings.model_validate_json` takes, secrets in the clear: for a
    process of our own, never for a log. What nobody set stays unset."""
    values = settings.model_dump(mode="json", include=settings.model_fields_set)
    for name, value in settings:
        if name in values and isinstance(value, SecretStr):
            values[name] = value.get_secret_value()
    return json.dumps(values)


def load(file: Path | None = None, table: dict[str, Any] | None = None, **flags: Any) -> Settings:
    """Settings from a TOML file, the environment and flags; flags of value None are not set.

    Args:
        table: what a file says, where another file holds it.

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
            least: PydanticBaseSettingsSource = (
                TomlConfigSettingsSource(settings_cls, file)
                if table is None
                else InitSettingsSource(settings_cls, init_kwargs=table)
            )
            return init_settings, env_settings, least

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
    examples = {
        "ice_servers": '[{"urls": "stun:HOST:3478"}]',
        "keys": '[{"name": "NAME", "file": "/path/of/its/secret", "scopes": ["call"]}]',
    }
    example = examples.get(found[1], '["…"]')
    return f"{PREFIX}{found[1].upper()} must be JSON, such as '{example}'"
