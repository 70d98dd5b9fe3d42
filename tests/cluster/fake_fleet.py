"""Parts of a cluster without Ray and without processes, which do what a test says."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field

from rtc_agent.cluster.fleet import Holders, PartAway, PartGone
from rtc_agent.cluster.parts import Kind, kind_of
from rtc_agent.cluster.plan import FrontSight, Phase, Plan, ReplicaSight, Values

_pids = itertools.count(1)


@dataclass
class FakePart:
    name: str
    plan: Plan
    port: int
    pid: int = field(default_factory=lambda: next(_pids))
    phase: Phase = Phase.STARTING
    detail: str = ""
    calls: int = 0
    away: bool = False
    hangs: bool = False
    generation: int = 0
    known: Plan | None = None

    def __post_init__(self) -> None:
        self.generation = self.plan.generation

    def values(self) -> Values:
        url = f"http://10.0.0.1:{self.port}"
        if kind_of(self.name) is Kind.FRONT:
            front = FrontSight(
                self.generation, self.phase, url, "10.0.0.1", self.pid, 0.0, self.detail
            )
            return front.to_values()
        replica = ReplicaSight(
            f"r{self.pid:08x}",
            self.generation,
            self.phase,
            url,
            "10.0.0.1",
            self.pid,
            0.0,
            self.detail,
            self.calls,
            4,
            4 - self.calls,
        )
        return replica.to_values()


class FakeFleet:
    """A `Fleet`. Parts begin to serve when they are let, and end when they are told and empty."""

    def __init__(self) -> None:
        self.parts: dict[str, FakePart] = {}
        self.restarted: list[str] = []
        self.wanted = 0
        self.counted: list[tuple[str, Holders]] = []
        self.refuses = ""
        """Why parts cannot run; empty: they can."""
        self._ports = itertools.count(9_000)

    def of(self, kind: Kind, phase: Phase = Phase.SERVING) -> list[FakePart]:
        return [p for p in self.parts.values() if kind_of(p.name) is kind and p.phase is phase]

    def let_serve(self) -> None:
        """What is starting serves from now on, or says why it cannot."""
        for part in self.parts.values():
            if part.phase is Phase.STARTING:
                part.phase = Phase.FAILED if self.refuses else Phase.SERVING
                part.detail = self.refuses

    def die(self, part: FakePart) -> None:
        """Its process is killed; another is started in its place."""
        part.pid, part.phase, part.calls, part.away = next(_pids), Phase.STARTING, 0, True

    async def names(self) -> list[str]:
        return ["controller", "somebody else's", *self.parts]

    async def start_replica(self, name: str, plan: Plan) -> None:
        self.parts[name] = FakePart(name, plan, next(self._ports))

    async def start_front(
        self, name: str, plan: Plan, port: int | None = None, node: str | None = None
    ) -> None:
        assert (port is None) == (node is None)
        self.parts[name] = FakePart(name, plan, port or next(self._ports))

    async def look(self, name: str) -> Values:
        part = self._find(name)
        while part.hangs:
            await asyncio.sleep(0)
        if part.away:
            raise PartAway(name)
        if part.phase is Phase.DRAINING and not part.calls:
            part.phase = Phase.OVER
        return part.values()

    async def latest_plan(self, name: str) -> Plan:
        part = self._find(name)
        return part.known or part.plan

    async def keep(self, name: str, plan: Plan) -> None:
        self._find(name).known = plan

    async def count(self, name: str, holders: Holders) -> None:
        self.counted.append((name, holders))

    async def drain(self, name: str, limit_s: float) -> None:
        self._find(name).phase = Phase.DRAINING

    async def stop(self, name: str) -> None:
        self._find(name).phase = Phase.OVER

    async def end(self, name: str) -> None:
        self._find(name)
        del self.parts[name]

    async def restart(self, name: str) -> None:
        self.restarted.append(name)
        self.die(self._find(name))
        self._find(name).hangs = False

    async def want(self, plan: Plan, replicas: int) -> None:
        self.wanted = replicas

    def _find(self, name: str) -> FakePart:
        if name not in self.parts:
            raise PartGone(name)
        return self.parts[name]
