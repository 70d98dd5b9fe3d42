"""Parts of the cluster as named Ray actors: placed, restarted and found by Ray."""

from __future__ import annotations

import logging
from typing import Any

import ray
from ray.autoscaler.sdk import request_resources
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rtc_agent.cluster.fleet import Holders, PartAway, PartGone
from rtc_agent.cluster.plan import Plan, Values

log = logging.getLogger(__name__)

CONTROLLER = "controller"
_ALWAYS = {"lifetime": "detached", "max_restarts": -1, "max_concurrency": 1000}


class RayFleet:
    """The `Fleet` of the Ray namespace that this process is in."""

    async def names(self) -> list[str]:
        found: list[str] = ray.util.list_named_actors()
        return found

    async def start_replica(self, name: str, plan: Plan) -> None:
        from rtc_agent.cluster.actors import ReplicaActor

        actor = ray.remote(ReplicaActor).options(name=name, **_ALWAYS, **_needs(plan))
        actor.remote(plan.to_values())

    async def start_front(
        self, name: str, plan: Plan, port: int | None = None, node: str | None = None
    ) -> None:
        from rtc_agent.cluster.actors import FrontActor

        actor = ray.remote(FrontActor).options(
            name=name,
            num_cpus=0,
            resources=plan.cluster.front_resources,
            scheduling_strategy=_place(node),
            **_ALWAYS,
        )
        actor.remote(plan.to_values(), port)

    async def look(self, name: str) -> Values:
        found: Values = await self._ask(name, "look")
        return found

    async def latest_plan(self, name: str) -> Plan:
        return Plan.from_values(await self._ask(name, "latest_plan"))

    async def keep(self, name: str, plan: Plan) -> None:
        await self._ask(name, "keep", plan.to_values())

    async def count(self, name: str, holders: Holders) -> None:
        await self._ask(name, "count", holders)

    async def drain(self, name: str, limit_s: float) -> None:
        await self._ask(name, "drain", limit_s)

    async def stop(self, name: str) -> None:
        await self._ask(name, "stop")

    async def end(self, name: str) -> None:
        ray.kill(_handle(name), no_restart=True)

    async def restart(self, name: str) -> None:
        ray.kill(_handle(name), no_restart=False)

    async def want(self, plan: Plan, replicas: int) -> None:
        bundle = bundle_of(plan)
        request_resources(bundles=[bundle] * replicas if bundle else [])

    async def _ask(self, name: str, method: str, *arguments: object) -> Any:
        try:
            return await getattr(_handle(name), method).remote(*arguments)
        except ActorUnavailableError as error:
            raise PartAway(name) from error
        except ActorDiedError as error:
            raise PartGone(name) from error
        except RayError as error:
            log.warning("%s cannot be asked: %s", name, error)
            raise PartAway(name) from error


def _handle(name: str) -> Any:
    try:
        return ray.get_actor(name)
    except ValueError as error:
        raise PartGone(name) from error


def _needs(plan: Plan) -> dict[str, Any]:
    """What a replica's host must have to spare."""
    cluster = plan.cluster
    return {
        "num_cpus": cluster.cpus,
        "num_gpus": cluster.gpus_for(plan.server_anywhere()),
        "resources": cluster.replica_resources,
    }


def bundle_of(plan: Plan) -> dict[str, float]:
    """The same by Ray's names of resources, without what is not needed."""
    needs = _needs(plan)
    bundle = {"CPU": needs["num_cpus"], "GPU": needs["num_gpus"], **needs["resources"]}
    return {name: amount for name, amount in bundle.items() if amount}


def _place(node: str | None) -> Any:
    """A front goes to the given host, if that still lives; else where there are fewest."""
    for each in ray.nodes():
        if each["Alive"] and each["NodeManagerAddress"] == node:
            return NodeAffinitySchedulingStrategy(each["NodeID"], soft=True)
    return "SPREAD"
