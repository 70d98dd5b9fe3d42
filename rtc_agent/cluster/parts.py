"""What the controller knows of each part of the cluster."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from rtc_agent.cluster.plan import FrontSight, Phase, ReplicaSight, Values

ENDING = frozenset({Phase.DRAINING, Phase.OVER, Phase.FAILED})


class Kind(enum.StrEnum):
    REPLICA = "replica"
    FRONT = "front"


def kind_of(name: str) -> Kind | None:
    """Which kind of part has such a name; None: it is none of ours."""
    kind = name.partition(":")[0]
    return Kind(kind) if kind in tuple(Kind) else None


@dataclass(eq=False)
class Part:
    """A replica or a front, as last heard of."""

    name: str
    kind: Kind
    generation: int
    started_s: float
    """When it was started, or found, on the controller's clock."""
    sight: ReplicaSight | FrontSight | None = None
    """None: it has no place yet, or is away."""
    heard_s: float = 0.0
    drained: bool = False
    """It was told to end, or does so by itself."""
    restarts: int = 0
    """How often its process was started again."""
    stopped_pid: int = 0
    """The process that was told to stop."""
    _pid: int = 0

    def hear(self, values: Values, now_s: float) -> None:
        """Take over what it says."""
        self.sight = self._read(values)
        self.heard_s = now_s
        self.generation = self.sight.generation
        self.drained = self.drained or self.phase in ENDING
        self.restarts += self._pid not in (0, self.sight.pid)
        self._pid = self.sight.pid

    def _read(self, values: Values) -> ReplicaSight | FrontSight:
        kind = ReplicaSight if self.kind is Kind.REPLICA else FrontSight
        return kind.from_values(values)

    @property
    def phase(self) -> Phase:
        return Phase.PENDING if self.sight is None else Phase(self.sight.phase)

    @property
    def serving(self) -> bool:
        return self.phase is Phase.SERVING

    @property
    def calls(self) -> int:
        return self.sight.calls if isinstance(self.sight, ReplicaSight) else 0

    @property
    def place(self) -> tuple[str, int] | None:
        """Host and port of a front that listens."""
        if self.sight is None or not self.sight.url:
            return None
        return self.sight.node, int(self.sight.url.rstrip("/").rpartition(":")[2])
