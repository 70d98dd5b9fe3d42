"""What a cluster is to be: `cluster.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rtc_agent import config
from rtc_agent.config import Settings
from rtc_agent.errors import ConfigError
from rtc_agent.exposure import require_keys

_ON_A_GPU = ("personaplex", "moshi")


class ClusterSettings(BaseModel):
    """The top of `cluster.toml`; its table `[server]` has the settings of `rtc-agent serve`."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(
        "rtc-agent",
        pattern=r"^[\w.-]{1,64}$",
        description="Ray namespace of everything of this cluster; two clusters may share a Ray",
    )
    ray_port: int = Field(
        6399, ge=1, le=65535, description="port of a Ray that `up` starts itself, on loopback"
    )
    replicas: int = Field(1, ge=0, le=4096, description="engines to begin with")
    min_replicas: int | None = Field(
        None, ge=1, le=4096, description="fewest engines; with max_replicas, load decides"
    )
    max_replicas: int | None = Field(
        None, ge=1, le=4096, description="most engines; left out, there are always `replicas`"
    )
    occupancy: float = Field(
        0.7, gt=0, le=1, description="share of all slots in use that load is answered for"
    )
    scale_in_after_s: float = Field(
        300, ge=0, description="seconds that fewer engines must have sufficed before one is drained"
    )
    gpus: float | None = Field(
        None, ge=0, description="GPUs of each engine; left out: one if its model needs one"
    )
    cpus: float = Field(
        0.5, ge=0, description="CPUs that Ray sets aside for each engine and its media workers"
    )
    replica_resources: dict[str, float] = Field(
        {}, description="further resources of Ray's that an engine's host must have"
    )
    replica_ports: str = Field(
        "",
        pattern=r"^(\d{1,5}-\d{1,5})?$",
        description="TCP ports on which fronts reach engines, as 20000-20031; empty: any",
    )
    fronts: int = Field(1, ge=1, le=256, description="HTTP listeners")
    front_resources: dict[str, float] = Field(
        {}, description="resources of Ray's that a front's host must have, such as {\"front\" = 1}"
    )
    surge: bool = Field(
        True,
        description="an upgrade starts a new engine before it drains an old one; false: after, "
        "where every GPU is in use",
    )
    surge_wait_s: float = Field(
        120, ge=0, description="seconds after which an upgrade drains an old one all the same"
    )
    at_once: int | None = Field(
        None,
        ge=1,
        le=4096,
        description="engines that an upgrade replaces at the same time; left out: one of ten",
    )
    drain_limit_s: float = Field(
        0, ge=0, description="longest time that a drained engine's calls may go on; 0: any"
    )

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> ClusterSettings:
        if (self.min_replicas is None) != (self.max_replicas is None):
            raise ValueError("min_replicas and max_replicas belong together")
        if self.min_replicas and self.max_replicas and self.min_replicas > self.max_replicas:
            raise ValueError("min_replicas is more than max_replicas")
        return self

    def gpus_for(self, server: Settings) -> float:
        """GPUs that an engine of these settings takes."""
        if self.gpus is not None:
            return self.gpus
        on_cpu = server.device == "cpu"
        return 1.0 if server.agent in _ON_A_GPU and not on_cpu else 0.0

    def at_once_of(self, replicas: int) -> int:
        """How many of so many engines an upgrade replaces at the same time."""
        return self.at_once or max(1, replicas // 10)

    def within(self, replicas: int) -> int:
        """The nearest number of engines that is allowed."""
        if self.min_replicas is None or self.max_replicas is None:
            return replicas
        return max(self.min_replicas, min(self.max_replicas, replicas))


def load(file: Path) -> tuple[ClusterSettings, Settings]:
    """What the file says of the cluster and of each of its servers.

    Raises:
        ConfigError: it cannot be read, or does not fit; the message names each fault.
    """
    try:
        table: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"The file {file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The file {file} is not valid TOML: {error}.") from error
    server_table = table.pop("server", {})
    if not isinstance(server_table, dict):
        raise ConfigError(f"In {file}, `server` is to be a table: [server].")
    try:
        cluster = ClusterSettings.model_validate(table)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}"
            for fault in error.errors(include_url=False)
        )
        raise ConfigError(
            f"Cluster settings that do not fit: {faults}. docs/cluster.md lists what there is; "
            "what `rtc-agent serve` takes belongs below [server]."
        ) from error
    server = config.load(table=server_table)
    if server.telephony.enabled:
        raise ConfigError(
            "The phone line does not run in a cluster's servers; run `rtc-agent sip` beside it, "
            "with the address of a front."
        )
    require_keys(server)
    # Workers are what calls are held by; a server without them has no front to drain.
    workers = {"media_workers": max(1, server.media_workers)}
    return cluster, server.model_copy(update=workers)
