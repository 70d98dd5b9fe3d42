"""One replica: an engine with its media workers, and the address at which fronts reach it."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rtc_agent.cluster.ending import ending_of
from rtc_agent.cluster.ids import new_replica_id, prefix_of
from rtc_agent.cluster.plan import Phase, Plan, ReplicaSight
from rtc_agent.cluster.ports import listen_in
from rtc_agent.cluster.replica_front import ReplicaFront
from rtc_agent.exposure import access
from rtc_agent.listening import require_local, site_runner
from rtc_agent.processes.group import ProcessGroup
from signaling.parts import Access

LOOK_EVERY_S = 0.5
FRONT_CLOSE_S = 0.5


class Replica:
    """Runs one server's processes until it is told to stop, or is drained and empty."""

    def __init__(self, plan: Plan, node: str) -> None:
        """
        Args:
            node: this host's address, at which the cluster's other hosts reach it.
        """
        self.id = new_replica_id()
        self._plan = plan
        self._node = node
        self._phase = Phase.STARTING
        self._detail = ""
        self._url = ""
        self._began_s = time.monotonic()
        self._front: ReplicaFront | None = None
        self._drain_until_s: float | None = None
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    def sight(self) -> ReplicaSight:
        """How it is doing."""
        seen = ReplicaSight(
            id=self.id,
            generation=self._plan.generation,
            phase=self._phase,
            url=self._url,
            node=self._node,
            pid=os.getpid(),
            age_s=round(time.monotonic() - self._began_s, 1),
            detail=self._detail,
        )
        if self._front is None:
            return seen
        state = self._front.state()
        return replace(
            seen,
            detail=self._detail or state.detail,
            calls=state.calls,
            slots=state.slots,
            slots_free=state.slots_free,
        )

    def drain(self, limit_s: float = 0) -> None:
        """Take no new calls, and stop once those there are have ended.

        Args:
            limit_s: longest time that they may go on; 0: any.
        """
        if self._front is None or self._phase is Phase.STARTING:
            self._stop.set()
            return
        if limit_s and self._drain_until_s is None:
            self._drain_until_s = time.monotonic() + limit_s
        self._front.draining = True
        if self._phase is Phase.SERVING:
            self._phase = Phase.DRAINING

    def stop(self) -> None:
        """End it: calls go on for as long as the settings say, and are told why they end. A second
        time: at once."""
        (self._hurry if self._stop.is_set() else self._stop).set()

    async def run(self) -> None:
        """Until it is over, or has failed; `sight` says which."""
        self._phase, self._detail = await ending_of(self._run(), "the replica")

    async def _run(self) -> None:
        settings = self._plan.server_here()
        require_local(settings.ice_hosts)
        with tempfile.TemporaryDirectory(prefix="rtc-agent-") as folder:
            group = ProcessGroup(settings, Path(folder), prefix_of(self.id))
            front = ReplicaFront(
                self.id, group.sockets, _only_keys(access(settings)), self._plan.secret
            )
            front.restarts = group.restarts
            runner = site_runner(front.app(), FRONT_CLOSE_S)
            group.start()
            try:
                await runner.setup()
                ports = self._plan.cluster.replica_ports
                self._url = (await listen_in(runner, self._node, ports)).rstrip("/")
                self._front = front
                await self._serve(group, front)
            finally:
                await group.stop_workers(self._hurry)
                await asyncio.gather(runner.cleanup(), group.stop_engine())
                group.close()

    async def _serve(self, group: ProcessGroup, front: ReplicaFront) -> None:
        ready = asyncio.create_task(group.wait_ready())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({ready, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                ready.result()
                await front.look()
                self._phase = Phase.SERVING
                await self._until_over(front)
        finally:
            ready.cancel()
            stopping.cancel()

    async def _until_over(self, front: ReplicaFront) -> None:
        while not self._stop.is_set():
            if front.draining:
                late = self._drain_until_s is not None and time.monotonic() > self._drain_until_s
                if late or await front.is_empty():
                    return
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._stop.wait()
            except TimeoutError:
                continue


def _only_keys(full: Access) -> Access:
    """Limits are kept by the fronts, past which nobody comes here."""
    rules = replace(
        full.rules,
        keys=tuple(replace(key, max_calls=0) for key in full.rules.keys),
        offers_per_minute=0,
        key_offers_per_minute=0,
        calls_per_address=0,
    )
    return replace(full, rules=rules)
