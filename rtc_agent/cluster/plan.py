"""What the cluster is to be at the moment, and what is seen of its parts.

Both cross between processes that may run different versions of this code while an upgrade is under
way, so that they travel as plain values, and fields that a reader does not know are left out.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from rtc_agent import config
from rtc_agent.cluster.settings import ClusterSettings
from rtc_agent.config import Settings, dump

Values = dict[str, Any]


class _Travelling:
    def to_values(self) -> Values:
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True)
class Plan(_Travelling):
    """The wish that the controller works towards. A change makes a plan of a higher version."""

    cluster_json: str
    server_json: str
    """`Settings`, with secrets in the clear."""
    secret: str
    """What fronts show to replicas."""
    replicas: int
    version: int = 1
    generation: int = 1
    """Parts that were started for a lower one are replaced."""
    halted: str = ""
    """Why they are not, for now: a part of this generation failed."""

    @classmethod
    def of(cls, cluster: ClusterSettings, server: Settings, secret: str) -> Plan:
        replicas = cluster.within(cluster.replicas)
        return cls(cluster.model_dump_json(), dump(server), secret, replicas)

    @property
    def cluster(self) -> ClusterSettings:
        return ClusterSettings.model_validate_json(self.cluster_json)

    def server_here(self) -> Settings:
        """Settings of a server on this host: its environment has the last word, so that what is
        the host's own (`RTC_AGENT_PUBLIC_IP`, `RTC_AGENT_ICE_HOSTS`) can be said there.

        Raises:
            ConfigError: this host's environment does not fit.
        """
        server = config.load(table=json.loads(self.server_json))
        return server.model_copy(update={"media_workers": max(1, server.media_workers)})

    def server_anywhere(self) -> Settings:
        """Settings of a server, wherever it runs."""
        return Settings.model_validate_json(self.server_json)

    def scaled(self, replicas: int) -> Plan:
        """The same with so many engines."""
        return replace(self, replicas=replicas, version=self.version + 1)

    def stopped(self, reason: str) -> Plan:
        """The same, with what is left of older generations to stay."""
        return replace(self, halted=reason, version=self.version + 1)

    def upgraded(self, cluster: ClusterSettings, server: Settings) -> Plan:
        """The next generation, with as many engines."""
        return replace(
            self,
            cluster_json=cluster.model_dump_json(),
            server_json=dump(server),
            replicas=cluster.within(self.replicas),
            version=self.version + 1,
            generation=self.generation + 1,
            halted="",
        )


class Phase(enum.StrEnum):
    """How far a part of the cluster is."""

    PENDING = "pending"
    """No host has room for it yet, or it has not been heard of."""
    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    OVER = "over"
    FAILED = "failed"
    """It cannot run as it is told to."""


@dataclass(frozen=True)
class ReplicaSight(_Travelling):
    """What a replica says of itself."""

    id: str
    generation: int
    phase: str
    url: str
    """Where fronts reach it; empty until it listens."""
    node: str
    pid: int
    age_s: float
    detail: str = ""
    calls: int = 0
    slots: int = 0
    slots_free: int = 0


@dataclass(frozen=True)
class FrontSight(_Travelling):
    """What a front says of itself."""

    generation: int
    phase: str
    url: str
    node: str
    pid: int
    age_s: float
    detail: str = ""
    sockets: int = 0
    """WebSocket calls that pass through it."""


@dataclass(frozen=True)
class Member(_Travelling):
    """A replica as fronts are told of it."""

    id: str
    url: str
    draining: bool = False
