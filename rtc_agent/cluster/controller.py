"""Keeps the cluster as its plan has it: as many replicas and fronts, of the current generation.

It decides and Ray does: a part that dies is started again by Ray, in place or on another host, and
a host that is missing is found by Ray's autoscaler. If the controller itself dies, Ray starts it
again; it finds the parts that there are and asks them for the latest plan. No call depends on it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Coroutine, Iterable
from typing import Any

from rtc_agent.clock import Clock
from rtc_agent.cluster.autoscale import Autoscaler
from rtc_agent.cluster.fleet import Fleet, Holders, PartAway, PartGone
from rtc_agent.cluster.parts import Kind, Part, kind_of
from rtc_agent.cluster.plan import Member, Phase, Plan, ReplicaSight, Values
from rtc_agent.cluster.rolling import next_step
from rtc_agent.errors import ConfigError, UnknownCall

log = logging.getLogger(__name__)

STEP_EVERY_S = 0.5
LOOK_EVERY_S = 1.0
LOOK_SOON_S = 0.25
"""At parts that begin or end."""
HUNG_S = 20.0
"""A part that was heard and says nothing for so long hangs, or its host is cut off."""
WATCH_S = 10.0
"""How long a front that watches is kept waiting when nothing changes."""
MOST_DEATHS = 2
"""A new part that has died more often stops the upgrade."""
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 60.0


class Controller:
    """One for each cluster. All its methods run on one event loop."""

    def __init__(self, plan: Plan, fleet: Fleet, clock: Clock) -> None:
        self.plan = plan
        self.stopping = False
        self.failure = ""
        """Why a part could not run lately."""
        self._fleet = fleet
        self._clock = clock
        self._parts: dict[str, Part] = {}
        self._autoscaler = Autoscaler()
        self._failures = 0
        self._not_before_s = 0.0
        self._freed_s = float("-inf")
        self._members: list[Member] = []
        # Unlike that of any other controller that fronts may have heard of.
        self._epoch = secrets.token_hex(4)
        self._changes = itertools.count()
        self._token = f"{self._epoch}.{next(self._changes)}"
        self._changed = asyncio.Event()
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Find what there is, and begin to keep it so."""
        for name in await self._fleet.names():
            if (kind := kind_of(name)) is not None:
                await self._adopt(name, kind)
        await self._adopt_plan(self.plan)
        self._spawn(self._run(), "controller")

    async def aclose(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # What commands ask for

    async def scale(self, replicas: int) -> None:
        """Have so many replicas from now on.

        Raises:
            ConfigError: more or fewer than the plan allows.
        """
        if (allowed := self.plan.cluster.within(replicas)) != replicas:
            raise ConfigError(
                f"The settings allow {self.plan.cluster.min_replicas} to "
                f"{self.plan.cluster.max_replicas} replicas: {allowed} instead of {replicas}."
            )
        await self._adopt_plan(self.plan.scaled(replicas))

    async def use(self, plan: Plan) -> None:
        """Go by another plan from now on; one of a higher generation replaces every part."""
        await self._adopt_plan(plan)

    async def drain(self, replica_id: str, fewer: bool = False) -> None:
        """Take one replica out of service once its calls are over.

        Args:
            fewer: nothing takes its place.

        Raises:
            UnknownCall: there is no such replica.
        """
        for part in self._of(Kind.REPLICA):
            if isinstance(part.sight, ReplicaSight) and part.sight.id == replica_id:
                if fewer and not part.drained:
                    await self._adopt_plan(self.plan.scaled(self.plan.replicas - 1))
                await self._drain(part)
                return
        known = ", ".join(_ids(self._of(Kind.REPLICA)))
        raise UnknownCall(f"There is no replica {replica_id[:64]!r}; there are: {known or 'none'}.")

    async def down(self) -> None:
        """Tell every caller that the server stops, and end every part, the fronts last."""
        self.stopping = True
        await self.step()

    @property
    def parts_left(self) -> int:
        """Parts that have not ended yet."""
        return len(self._parts)

    def status(self) -> Values:
        """All there is, for a person or a program."""
        replicas, fronts = self._of(Kind.REPLICA), self._of(Kind.FRONT)
        return {
            "generation": self.plan.generation,
            "wanted": {"replicas": self.plan.replicas, "fronts": self.plan.cluster.fronts},
            "stopping": self.stopping,
            "failure": self.failure or self.plan.halted,
            "halted": bool(self.plan.halted),
            "replicas": [self._describe(part) for part in replicas],
            "fronts": [self._describe(part) for part in fronts],
            "ready": self._is_ready(),
        }

    def _is_ready(self) -> bool:
        """Whether all that is wanted serves, in the current generation."""

        def serving(kind: Kind) -> int:
            current = [p for p in self._of(kind) if p.generation == self.plan.generation]
            return sum(part.serving and not part.drained for part in current)

        outdated = any(part.generation != self.plan.generation for part in self._parts.values())
        enough = serving(Kind.REPLICA) >= self.plan.replicas
        return enough and serving(Kind.FRONT) >= self.plan.cluster.fronts and not outdated

    # What fronts ask for

    async def members(self, token: str) -> tuple[str, list[Values]]:
        """The replicas as fronts are to know them, once that is something else than under `token`,
        or after a while; with the token of this answer."""
        if token == self._token:
            try:
                async with asyncio.timeout(WATCH_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self._token, [member.to_values() for member in self._members]

    async def let_in(self, front: str, holders: Holders) -> None:
        """A front has let these ask for calls; the others count them too."""
        for part in self._of(Kind.FRONT):
            if part.name != front and part.serving:
                await self._quietly(self._fleet.count(part.name, holders))

    # The work

    async def _run(self) -> None:
        while True:
            try:
                await self.step()
            except Exception:
                log.exception("a step of the controller failed; the next is tried")
            self._news.clear()
            try:
                async with asyncio.timeout(STEP_EVERY_S):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def step(self) -> None:
        """Do what is to be done next."""
        now = self._clock.now()
        for part in list(self._parts.values()):
            await self._tend(part, now)
        if self.stopping:
            await self._stop_parts()
        else:
            await self._scale_with_load(now)
            if now >= self._not_before_s:
                await self._step_replicas(now)
                await self._step_fronts()
        self._publish()

    async def _tend(self, part: Part, now: float) -> None:
        match part.phase:
            case Phase.OVER:
                await self._end(part)
            case Phase.FAILED:
                self._note_failure(part, now)
                await self._halt_upgrade(part, self.failure)
                await self._end(part)
            case Phase.STARTING | Phase.SERVING if part.drained and not self.stopping:
                # It was started again before it heard, or while it was draining.
                await self._drain(part)
            case Phase.PENDING if part.drained:
                await self._end(part)
        if part.restarts > MOST_DEATHS and not part.drained:
            await self._halt_upgrade(part, f"it died {part.restarts} times; its log says more.")
        if part.sight is not None and now - part.heard_s > HUNG_S:
            log.error("%s says nothing for %.0f s and is started again", part.name, HUNG_S)
            part.sight = None
            await self._quietly(self._fleet.restart(part.name))

    def _note_failure(self, part: Part, now: float) -> None:
        self.failure = "" if part.sight is None else part.sight.detail
        log.error("%s cannot run: %s", part.name, self.failure)
        pause_s = min(FIRST_PAUSE_S * 2**self._failures, LONGEST_PAUSE_S)
        self._failures += 1
        self._not_before_s = now + pause_s

    async def _halt_upgrade(self, part: Part, reason: str) -> None:
        """What has failed once, in the new generation, would fail in place of all the others."""
        if self.plan.halted or part.generation != self.plan.generation or not self._outdated():
            return
        log.error("the upgrade stops: %s cannot run: %s", part.name, reason)
        await self._adopt_plan(self.plan.stopped(f"{part.name} cannot run: {reason}"))

    def _outdated(self) -> list[Part]:
        """Parts of older generations that are to be replaced."""
        generation = self.plan.generation
        return [p for p in self._parts.values() if p.generation != generation and not p.drained]

    async def _scale_with_load(self, now: float) -> None:
        staying = [part for part in self._of(Kind.REPLICA) if not part.drained]
        slots = max(
            (p.sight.slots for p in staying if isinstance(p.sight, ReplicaSight)), default=0
        )
        calls = sum(part.calls for part in staying)
        wanted = self._autoscaler.wanted(self.plan.cluster, self.plan.replicas, calls, slots, now)
        if wanted != self.plan.replicas:
            log.info("%d calls: %d replicas instead of %d", calls, wanted, self.plan.replicas)
            await self._adopt_plan(self.plan.scaled(wanted))

    async def _step_replicas(self, now: float) -> None:
        step = next_step(
            self._of(Kind.REPLICA),
            wanted=self.plan.replicas,
            generation=self.plan.generation,
            surge=self.plan.cluster.surge,
            surge_wait_s=self.plan.cluster.surge_wait_s,
            now_s=now,
            freed_s=self._freed_s,
            at_once=self.plan.cluster.at_once_of(self.plan.replicas),
            halted=bool(self.plan.halted),
        )
        for _ in range(step.start):
            name = f"{Kind.REPLICA}:{secrets.token_hex(4)}"
            await self._fleet.start_replica(name, self.plan)
            self._add(name, Kind.REPLICA)
        for part in step.drain:
            await self._drain(part)

    async def _step_fronts(self) -> None:
        """One at a time: a new one takes over the port of an old one before that lets go of it."""
        staying = [part for part in self._of(Kind.FRONT) if not part.drained]
        current = [part for part in staying if part.generation == self.plan.generation]
        outdated = [part for part in staying if part.generation != self.plan.generation]
        wanted = self.plan.cluster.fronts
        if self.plan.halted and outdated and len(staying) >= wanted:
            return
        if any(not part.serving for part in current):
            return
        if len(current) + len(outdated) > wanted and (outdated or current):
            taken = {part.place for part in current}
            outdated.sort(key=lambda part: part.place not in taken)
            await self._drain((outdated or current)[0])
        elif len(current) < wanted:
            name = f"{Kind.FRONT}:{secrets.token_hex(4)}"
            node, port = outdated[0].place or (None, None) if outdated else (None, None)
            await self._fleet.start_front(name, self.plan, port, node)
            self._add(name, Kind.FRONT)

    async def _stop_parts(self) -> None:
        """Fronts once no replica is left: until then, callers still tell them of hanging up."""
        parts = self._of(Kind.REPLICA) or self._of(Kind.FRONT)
        for part in parts:
            part.drained = True
            if part.sight is not None and part.sight.pid != part.stopped_pid:
                part.stopped_pid = part.sight.pid
                await self._quietly(self._fleet.stop(part.name))

    async def _drain(self, part: Part) -> None:
        part.drained = True
        if part.sight is None:
            await self._end(part)
        else:
            limit_s = self.plan.cluster.drain_limit_s
            await self._quietly(self._fleet.drain(part.name, limit_s))
        self._publish()

    async def _end(self, part: Part) -> None:
        self._parts.pop(part.name, None)
        self._freed_s = self._clock.now()
        await self._quietly(self._fleet.end(part.name))

    async def _adopt_plan(self, plan: Plan) -> None:
        self.plan = plan
        await self._fleet.want(plan, plan.replicas)
        for part in list(self._parts.values()):
            if part.sight is not None:
                await self._quietly(self._fleet.keep(part.name, plan))

    async def _adopt(self, name: str, kind: Kind) -> None:
        """Take over a part that somebody else has started."""
        part = self._add(name, kind)
        try:
            part.hear(await self._fleet.look(name), self._clock.now())
            plan = await self._fleet.latest_plan(name)
        except (PartAway, PartGone):
            return
        if plan.version > self.plan.version:
            self.plan = plan

    def _add(self, name: str, kind: Kind) -> Part:
        part = Part(name, kind, self.plan.generation, self._clock.now())
        self._parts[name] = part
        self._spawn(self._watch(part), f"watch {name}")
        return part

    async def _watch(self, part: Part) -> None:
        while self._parts.get(part.name) is part:
            was = part.phase
            try:
                values = await self._fleet.look(part.name)
            except PartAway:
                part.sight = None
            except PartGone:
                log.error("%s is gone for good", part.name)
                self._parts.pop(part.name, None)
                self._freed_s = self._clock.now()
            else:
                part.hear(values, self._clock.now())
                if part.serving:
                    self._failures = 0
            self._publish()
            if part.phase is not was:
                self._news.set()
            pause_s = LOOK_EVERY_S if part.serving else LOOK_SOON_S
            await self._clock.sleep_until(self._clock.now() + pause_s)

    def _publish(self) -> None:
        """Let fronts know what has changed of the replicas."""
        members = [
            Member(part.sight.id, part.sight.url, part.drained or self.stopping)
            for part in self._of(Kind.REPLICA)
            if isinstance(part.sight, ReplicaSight)
            and part.sight.url
            and part.phase not in (Phase.OVER, Phase.FAILED)
        ]
        if members != self._members:
            self._members = members
            self._change()

    def _change(self) -> None:
        self._token = f"{self._epoch}.{next(self._changes)}"
        self._changed.set()
        self._changed = asyncio.Event()

    def _of(self, kind: Kind) -> list[Part]:
        return [part for part in self._parts.values() if part.kind is kind]

    def _describe(self, part: Part) -> Values:
        told = {} if part.sight is None else part.sight.to_values()
        pending = {"phase": Phase.PENDING, "generation": part.generation}
        return {"name": part.name, **pending, **told, "restarts": part.restarts}

    async def _quietly(self, order: Coroutine[Any, Any, None]) -> None:
        """An order to a part that may have gone meanwhile; whoever watches it sees that."""
        try:
            await order
        except (PartAway, PartGone):
            pass

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _ids(parts: Iterable[Part]) -> list[str]:
    return [part.sight.id for part in parts if isinstance(part.sight, ReplicaSight)]
