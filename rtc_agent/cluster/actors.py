"""The parts of a cluster as Ray actors: thin, each around a class that knows nothing of Ray.

All are detached, so that they outlive the command that made them, and restarted by Ray wherever
there is room. What they take and give are plain values (see `plan`). Ray makes an actor that has
coroutines on its event loop, so that a task can be begun with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

import ray
from ray.exceptions import RayError

from rtc_agent import logs
from rtc_agent.call.holder import Holder
from rtc_agent.clock import MonotonicClock
from rtc_agent.cluster.controller import Controller
from rtc_agent.cluster.fleet import Holders
from rtc_agent.cluster.front_server import FrontServer
from rtc_agent.cluster.niceness import come_first
from rtc_agent.cluster.plan import Member, Plan, Values
from rtc_agent.cluster.ray_fleet import CONTROLLER, RayFleet
from rtc_agent.cluster.replica import Replica
from rtc_agent.errors import RtcAgentError

log = logging.getLogger(__name__)

ASK_AGAIN_S = 1.0
SHARE_EVERY_S = 0.25


class ReplicaActor:
    """One replica. `options(num_gpus=…)` says what it takes."""

    def __init__(self, plan: Values) -> None:
        self._plan = Plan.from_values(plan)
        _prepare(self._plan)
        self._replica = Replica(self._plan, ray.util.get_node_ip_address())
        self._task = asyncio.create_task(self._replica.run())

    async def look(self) -> Values:
        return self._replica.sight().to_values()

    async def latest_plan(self) -> Values:
        return self._plan.to_values()

    async def keep(self, plan: Values) -> None:
        self._plan = Plan.from_values(plan)

    async def drain(self, limit_s: float) -> None:
        self._replica.drain(limit_s)

    async def stop(self) -> None:
        self._replica.stop()


class FrontActor:
    """One front; it asks the controller where replicas are."""

    def __init__(self, plan: Values, port: int | None) -> None:
        self._plan = Plan.from_values(plan)
        _prepare(self._plan)
        self._server = FrontServer(self._plan, ray.util.get_node_ip_address(), port)
        self._server.status = self._status
        self._tasks = [
            asyncio.create_task(self._server.run()),
            asyncio.create_task(self._follow()),
            asyncio.create_task(self._share()),
        ]

    async def look(self) -> Values:
        return self._server.sight().to_values()

    async def latest_plan(self) -> Values:
        return self._plan.to_values()

    async def keep(self, plan: Values) -> None:
        self._plan = Plan.from_values(plan)

    async def drain(self, limit_s: float) -> None:
        self._server.drain()

    async def stop(self) -> None:
        self._server.stop()

    async def count(self, holders: Holders) -> None:
        self._server.count(Holder(key, address) for key, address in holders)

    async def _share(self) -> None:
        """Tell other fronts, through the controller, who was let in here."""
        name = ray.get_runtime_context().get_actor_name()
        while True:
            await asyncio.sleep(SHARE_EVERY_S)
            if not (holders := self._server.take_let_in()):
                continue
            told = [(holder.key, holder.address) for holder in holders]
            with contextlib.suppress(RayError, ValueError):
                await ray.get_actor(CONTROLLER).let_in.remote(name, told)

    async def _follow(self) -> None:
        """What the front knows of the replicas stays as it was while there is no controller."""
        token = ""
        while True:
            try:
                controller = ray.get_actor(CONTROLLER)
                token, members = await controller.members.remote(token)
            except (RayError, ValueError):
                await asyncio.sleep(ASK_AGAIN_S)
                continue
            await self._server.take(Member.from_values(member) for member in members)

    async def _status(self) -> Values:
        """What the controller says of the cluster."""
        try:
            found: Values = await ray.get_actor(CONTROLLER).status.remote()
        except (RayError, ValueError):
            return {"failure": "The controller does not answer; Ray starts it again."}
        return found


class ControllerActor:
    """The one controller of a Ray namespace."""

    def __init__(self, plan: Values) -> None:
        wish = Plan.from_values(plan)
        _prepare(wish)
        self._controller = Controller(wish, RayFleet(), MonotonicClock())
        self._task = asyncio.create_task(self._controller.start())

    async def status(self) -> Values:
        return self._controller.status()

    async def plan(self) -> Values:
        return self._controller.plan.to_values()

    async def members(self, token: str) -> tuple[str, list[Values]]:
        return await self._controller.members(token)

    async def let_in(self, front: str, holders: Holders) -> None:
        await self._controller.let_in(front, holders)

    async def scale(self, replicas: int) -> str:
        """Why not; empty when it was done. Errors would arrive as Ray's."""
        try:
            await self._controller.scale(replicas)
        except RtcAgentError as error:
            return error.message
        return ""

    async def drain(self, replica_id: str, fewer: bool) -> str:
        """Why not; empty when it was done."""
        try:
            await self._controller.drain(replica_id, fewer)
        except RtcAgentError as error:
            return error.message
        return ""

    async def down(self) -> None:
        await self._controller.down()

    async def parts_left(self) -> int:
        return self._controller.parts_left


def _prepare(plan: Plan) -> None:
    settings = plan.server_here()
    logs.setup(settings.log_level, settings.log_format)
    come_first()
