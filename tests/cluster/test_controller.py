"""The controller on a virtual clock, with parts that die, hang, refuse and come back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from rtc_agent.cluster.controller import HUNG_S, Controller
from rtc_agent.cluster.parts import Kind
from rtc_agent.cluster.plan import Phase, Plan
from rtc_agent.cluster.settings import ClusterSettings
from rtc_agent.config import Settings
from rtc_agent.errors import ConfigError, UnknownCall
from tests.cluster.fake_fleet import FakeFleet
from tests.virtual_clock import VirtualClock

REPLICA, FRONT = Kind.REPLICA, Kind.FRONT


class Bench:
    def __init__(self, **cluster: object) -> None:
        wish = ClusterSettings.model_validate({"replicas": 2, "fronts": 2, **cluster})
        self.server = Settings(agent="echo")
        self.plan = Plan.of(wish, self.server, "secret")
        self.fleet = FakeFleet()
        self.clock = VirtualClock()
        self.controller = Controller(self.plan, self.fleet, self.clock)

    async def until(self, condition: Callable[[], object], steps: int = 200) -> None:
        for _ in range(steps):
            if condition():
                return
            await self.controller.step()
            await self.clock.run_for(0.5)
        raise AssertionError("it did not come about")

    async def come_up(self) -> None:
        def ready() -> object:
            self.fleet.let_serve()
            return self.controller.status()["ready"]

        await self.until(ready)

    async def succeed(self, plan: Plan) -> None:
        """Another controller in place of this one."""
        await self.controller.aclose()
        self.controller = Controller(plan, self.fleet, self.clock)
        starting = asyncio.create_task(self.controller.start())
        await self.clock.run_for(0)
        await starting

    def ids(self) -> set[str]:
        return {part["id"] for part in self.controller.status()["replicas"] if "id" in part}


@contextlib.asynccontextmanager
async def bench(**cluster: object) -> AsyncIterator[Bench]:
    made = Bench(**cluster)
    try:
        yield made
    finally:
        for part in made.fleet.parts.values():
            part.hangs = False
        await made.controller.aclose()


async def test_all_that_is_wanted_comes_up() -> None:
    async with bench() as it:
        await it.come_up()
        assert len(it.fleet.of(REPLICA)) == len(it.fleet.of(FRONT)) == 2
        _, members = await it.controller.members("")
        assert {member["id"] for member in members} == it.ids()
        for _ in range(10):
            await it.controller.step()
            await it.clock.run_for(1)
        assert len(it.fleet.parts) == 4, "and no more"


async def test_who_watches_is_told_of_a_replica_that_died_and_of_the_one_in_its_place() -> None:
    async with bench() as it:
        await it.come_up()
        token, _ = await it.controller.members("")
        watching = asyncio.create_task(it.controller.members(token))
        lost = it.fleet.of(REPLICA)[0]
        gone = f"r{lost.pid:08x}"
        it.fleet.die(lost)
        await it.until(watching.done)
        token, members = watching.result()
        assert len(members) == 1 and members[0]["id"] != gone
        lost.away = False
        await it.come_up()
        assert len(it.ids()) == 2 and gone not in it.ids()
        restarts = [part["restarts"] for part in it.controller.status()["replicas"]]
        assert sorted(restarts) == [0, 1]


async def test_a_part_that_hangs_is_started_again() -> None:
    async with bench() as it:
        await it.come_up()
        hung = it.fleet.of(REPLICA)[1]
        hung.hangs = True
        began = it.clock.now()
        await it.until(lambda: it.fleet.restarted)
        assert it.fleet.restarted == [hung.name]
        assert HUNG_S <= it.clock.now() - began < HUNG_S + 5
        hung.away = False
        await it.come_up()


async def test_a_part_that_cannot_run_says_why_and_is_tried_again_ever_more_seldom() -> None:
    async with bench(replicas=1, fronts=1) as it:
        it.fleet.refuses = "No GPU."

        def failed() -> object:
            it.fleet.let_serve()
            return it.controller.status()["failure"] == "No GPU."

        await it.until(failed)
        began = it.clock.now()
        tried = set()
        while it.clock.now() - began < 60:
            it.fleet.let_serve()
            tried |= set(it.fleet.parts)
            await it.controller.step()
            await it.clock.run_for(0.5)
        assert 2 <= len({name for name in tried if name.startswith("replica")}) <= 8
        it.fleet.refuses = ""
        await it.come_up()


async def test_drain_takes_no_call_away_and_another_comes_in_its_place() -> None:
    async with bench() as it:
        await it.come_up()
        leaving = it.fleet.of(REPLICA)[0]
        leaving.calls = 1
        name = f"r{leaving.pid:08x}"
        await it.controller.drain(name)
        await it.come_up()
        assert leaving.phase is Phase.DRAINING and len(it.fleet.of(REPLICA)) == 2
        _, members = await it.controller.members("")
        assert {m["id"]: m["draining"] for m in members}[name] is True
        leaving.calls = 0
        await it.until(lambda: leaving.name not in it.fleet.parts)
        await it.controller.drain(next(iter(it.ids())), fewer=True)
        await it.until(lambda: len(it.fleet.of(REPLICA)) == 1)
        assert it.fleet.wanted == 1
        with pytest.raises(UnknownCall, match="there are: r"):
            await it.controller.drain("nobody")


async def test_scale_out_and_in_within_what_is_allowed() -> None:
    async with bench(min_replicas=1, max_replicas=3) as it:
        await it.come_up()
        await it.controller.scale(3)
        assert it.fleet.wanted == 3
        await it.come_up()
        assert len(it.fleet.of(REPLICA)) == 3
        with pytest.raises(ConfigError, match="1 to 3"):
            await it.controller.scale(4)


async def test_load_brings_replicas_up() -> None:
    async with bench(min_replicas=2, max_replicas=5, occupancy=0.5) as it:
        await it.come_up()
        for part in it.fleet.of(REPLICA):
            part.calls = 4
        await it.until(lambda: it.fleet.wanted == 4)
        await it.come_up()
        assert len(it.fleet.of(REPLICA)) == 4


async def test_another_controller_finds_everything_and_the_latest_plan() -> None:
    async with bench() as it:
        await it.come_up()
        await it.controller.scale(3)
        await it.come_up()
        before = it.ids()
        await it.succeed(it.plan)
        await it.come_up()
        assert it.ids() == before and it.controller.plan.replicas == 3


async def test_what_one_front_lets_in_counts_at_the_others() -> None:
    async with bench(fronts=3) as it:
        await it.come_up()
        first, *others = (part.name for part in it.fleet.of(FRONT))
        await it.controller.let_in(first, [("shop", "192.0.2.1")])
        told = [(name, [("shop", "192.0.2.1")]) for name in others]
        assert it.fleet.counted == told


async def test_an_upgrade_replaces_all_and_fronts_keep_their_places() -> None:
    async with bench() as it:
        await it.come_up()
        ports = {part.port for part in it.fleet.of(FRONT)}
        for part in it.fleet.of(REPLICA):
            part.calls = 1
        old = it.fleet.of(REPLICA)
        await it.succeed(it.plan.upgraded(it.plan.cluster, it.server))

        def new_ones_serve() -> object:
            it.fleet.let_serve()
            assert len(it.fleet.of(REPLICA)) >= 2 and len(it.fleet.of(FRONT)) >= 2
            new = [part for part in it.fleet.of(REPLICA) if part.generation == 2]
            return len(new) == 2 and len(it.fleet.of(REPLICA, Phase.DRAINING)) == 2

        await it.until(new_ones_serve)
        assert it.fleet.of(REPLICA, Phase.DRAINING) == old, "their calls go on"
        for part in old:
            part.calls = 0
        await it.come_up()
        assert {part.generation for part in it.fleet.parts.values()} == {2}
        assert {part.port for part in it.fleet.of(FRONT)} == ports


async def test_a_new_replica_that_cannot_run_stops_the_upgrade_until_the_next_one() -> None:
    async with bench(replicas=4, at_once=2) as it:
        await it.come_up()
        before = it.ids()
        it.fleet.refuses = "No weights there."
        await it.succeed(it.plan.upgraded(it.plan.cluster, it.server))

        def stopped() -> object:
            it.fleet.let_serve()
            return it.controller.status()["halted"]

        await it.until(stopped)
        for again in (False, True):
            if again:
                # What another controller is told by the parts.
                await it.succeed(it.controller.plan.upgraded(it.plan.cluster, it.server))
                it.controller.plan = it.fleet.of(REPLICA)[0].known or it.plan
            for _ in range(20):
                it.fleet.let_serve()
                await it.controller.step()
                await it.clock.run_for(1)
            status = it.controller.status()
            assert before <= it.ids() and {p.plan.generation for p in it.fleet.of(REPLICA)} == {1}
            assert "No weights there." in status["failure"] and not status["ready"]
            assert len(it.fleet.of(FRONT)) == 2
        it.fleet.refuses = ""
        await it.succeed(it.controller.plan.upgraded(it.plan.cluster, it.server))
        await it.come_up()
        assert not before & it.ids() and len(it.ids()) == 4
        assert not it.controller.status()["halted"]


async def test_a_new_replica_that_dies_again_and_again_stops_the_upgrade() -> None:
    async with bench(replicas=3, fronts=1) as it:
        await it.come_up()
        before = it.ids()
        await it.succeed(it.plan.upgraded(it.plan.cluster, it.server))

        def stopped() -> object:
            for part in it.fleet.of(REPLICA, Phase.STARTING):
                it.fleet.die(part)
                part.away = False
            return it.controller.status()["halted"]

        await it.until(stopped)
        assert "died" in it.controller.status()["failure"]
        assert before <= it.ids()


async def test_at_the_end_fronts_go_last() -> None:
    async with bench() as it:
        await it.come_up()
        await it.controller.down()
        assert not it.fleet.of(REPLICA) and len(it.fleet.of(FRONT)) == 2
        await it.until(lambda: it.controller.parts_left == 0)
        assert not it.fleet.parts
