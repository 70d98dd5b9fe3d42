"""A front's view of the replicas: which live, what each can take, and where a call is to go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

from rtc_agent.call.holder import Holder
from rtc_agent.clock import Clock
from rtc_agent.cluster.plan import Member
from rtc_agent.cluster.replica_front import STATE, ReplicaState

LOOK_EVERY_S = 1.0
LOOK_TIMEOUT_S = 2.0
CUT_OFF_S = 4.0
GONE_PAUSES_S = (0.0, 0.05, 0.15, 0.3)
FULL_TRIES = 2
"""Replicas that seem full and are tried all the same: a slot may just have become free."""


@dataclass(slots=True, eq=False)
class Placing:
    """A call that this front sends to a replica, which may not know of it yet."""

    holder: Holder
    done_s: float | None = None
    """When it was answered."""


@dataclass(slots=True, eq=False)
class Replica:
    """One replica, as this front last saw it."""

    member: Member
    alive: bool = False
    state: ReplicaState | None = None
    placed: list[Placing] = field(default_factory=list)
    """Calls that this front has sent there since it last looked."""

    answered_s: float = 0.0
    """When it was last heard of, or the front was told of it."""

    @property
    def id(self) -> str:
        return self.member.id

    @property
    def takes_calls(self) -> bool:
        state = self.state
        return (
            self.alive
            and state is not None
            and state.ready
            and not state.draining
            and not self.member.draining
        )

    @property
    def free(self) -> int:
        """Slots that it is thought to have left."""
        return 0 if self.state is None else self.state.slots_free - len(self.placed)

    @property
    def calls(self) -> int:
        return 0 if self.state is None else self.state.calls + len(self.placed)

    @property
    def holders(self) -> list[Holder]:
        """On whose behalf its calls are."""
        known = () if self.state is None else self.state.holders
        return [*known, *(placing.holder for placing in self.placed)]

    def has(self, prompt: str | None) -> bool:
        """Whether a call with that prompt began there lately."""
        return prompt is not None and self.state is not None and prompt in self.state.prompts


class View:
    """All replicas that the front has been told of."""

    def __init__(self, http: aiohttp.ClientSession, clock: Clock) -> None:
        """
        Args:
            http: brings the cluster's secret.
        """
        self._http = http
        self._clock = clock
        self.looked_s = clock.now()
        """When the replicas were last looked at, all of them."""
        self._replicas: dict[str, Replica] = {}

    def __iter__(self) -> Iterator[Replica]:
        return iter(list(self._replicas.values()))

    def take(self, members: Iterable[Member]) -> list[Replica]:
        """These are the replicas from now on; those that are new."""
        told = {member.id: member for member in members}
        for gone in self._replicas.keys() - told.keys():
            del self._replicas[gone]
        fresh = []
        for member in told.values():
            if (known := self._replicas.get(member.id)) is not None:
                known.member = member
            else:
                fresh.append(Replica(member, answered_s=self._clock.now()))
                self._replicas[member.id] = fresh[-1]
        return fresh

    def get(self, replica_id: str) -> Replica | None:
        return self._replicas.get(replica_id)

    def is_cut_off(self, replica: Replica) -> bool:
        """Whether it has not been heard of for so long that its host is taken to be lost. Who comes
        back to a call there has lost it too, and cannot wait until that is certain."""
        return not replica.alive and self._clock.now() - replica.answered_s > CUT_OFF_S

    async def is_gone(self, replica: Replica) -> bool:
        """Whether nobody listens there any more: the process is no more, and so are its calls."""
        url = URL(replica.member.url)
        for pause_s in GONE_PAUSES_S:
            # A process that was killed lets go of its socket a moment later.
            await asyncio.sleep(pause_s)
            try:
                async with asyncio.timeout(LOOK_TIMEOUT_S):
                    _, writer = await asyncio.open_connection(url.host, url.port)
            except ConnectionRefusedError:
                return True
            except TimeoutError:
                return False
            except OSError:
                continue
            writer.close()
        return False

    def holders(self) -> list[Holder]:
        """On whose behalf the calls everywhere are."""
        return [holder for replica in self for holder in replica.holders]

    def candidates(self, prompt: str | None) -> list[Replica]:
        """Where a new call is to be tried, in this order: replicas that have its prompt first, if
        they have room, then by how little there is to do; those that seem full come last, for they
        know better. If none takes calls, those that may yet answer why."""
        able = [replica for replica in self if replica.takes_calls]
        if not able:
            return [replica for replica in self if replica.alive][:1]
        able.sort(key=lambda replica: (-replica.free, replica.calls, replica.id))
        able.sort(key=lambda replica: not replica.has(prompt))
        roomy = [replica for replica in able if replica.free > 0]
        return roomy + [replica for replica in able if replica.free <= 0][:FULL_TRIES]

    async def look(self, only: Iterable[Replica] | None = None) -> None:
        """See how the replicas are doing."""
        if only is None:
            self.looked_s = self._clock.now()
        await asyncio.gather(*(self._look_at(replica) for replica in list(only or self)))

    async def _look_at(self, replica: Replica) -> None:
        timeout = aiohttp.ClientTimeout(total=LOOK_TIMEOUT_S)
        began_s = self._clock.now()
        try:
            address = f"{replica.member.url}{STATE}"
            async with self._http.get(address, timeout=timeout) as answer:
                state = ReplicaState.from_json(await answer.json())
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError):
            replica.alive = False
            return
        replica.alive = answer.status == 200 and state.id == replica.id
        replica.state = state
        replica.answered_s = self._clock.now()
        replica.placed = [p for p in replica.placed if p.done_s is None or p.done_s >= began_s]
