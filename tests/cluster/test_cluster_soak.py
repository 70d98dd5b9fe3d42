"""What takes minutes to show on a real Ray: upgrades under calls, and every part killed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from rtc_agent.protocol.events import FRAME_MS
from tests.cluster.running import Cluster, Person, actor, calling, descendants, until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(600),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]


@contextlib.asynccontextmanager
async def running(folder: Path, top: str = "", server: str = "") -> AsyncIterator[Cluster]:
    cluster = await Cluster.start(folder, top, server)
    try:
        yield cluster
    finally:
        await cluster.stop()


async def goes_on(person: Person) -> None:
    """The person's call is under way, and stays so."""
    frame = person.frame
    await until(lambda: person.frame > frame + 2_000 / FRAME_MS)
    assert not person.told("ended")


async def test_an_upgrade_under_calls_loses_none(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster, contextlib.AsyncExitStack() as calls:
        people = [await calls.enter_async_context(calling(cluster, i % 2)) for i in range(3)]
        before = set(await cluster.replicas())
        text = cluster.config.read_text().replace("sessions = 2", "sessions = 3")
        cluster.config.write_text(text)
        upgrade = ("upgrade", "--config", str(cluster.config), "--at-once", "2", "--no-wait")
        await cluster.run(*upgrade)

        async def new_ones_serve() -> bool:
            with contextlib.suppress(aiohttp.ClientError, AssertionError):
                found = await cluster.status(1)
                parts = [*found["replicas"], *found["fronts"]]
                new = [p for p in parts if p["generation"] == 2 and p["phase"] == "serving"]
                old = [p for p in found["replicas"] if p["generation"] == 1]
                return len(new) == 4 and all(p["phase"] == "draining" for p in old)
            return False

        await until(new_ones_serve, 200)
        for person in people:
            await goes_on(person)
            patch = {"pc_id": person.pc_id, "candidates": []}
            url = f"{cluster.fronts[1]}/api/offer"
            async with cluster.http.patch(url, json=patch) as response:
                assert response.status == 200, "the new fronts lead to the old calls"
        async with calling(cluster) as newcomer:
            assert newcomer.replica not in before
        await calls.aclose()
        await until(lambda: cluster.whole(6), 100)
        assert not before & set(await cluster.replicas())


async def test_fronts_and_the_controller_may_die_and_no_call_does(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster, calling(cluster) as person:
        fronts = {part["url"]: part["pid"] for part in (await cluster.status(1))["fronts"]}
        os.kill(fronts[f"{cluster.fronts[0]}/"], signal.SIGKILL)

        async def trickles() -> bool:
            patch = {"pc_id": person.pc_id, "candidates": []}
            with contextlib.suppress(aiohttp.ClientError):
                url = f"{cluster.fronts[0]}/api/offer"
                async with cluster.http.patch(url, json=patch) as response:
                    return response.status == 200
            return False

        await until(trickles)
        os.kill(actor(cluster.process.pid, "ControllerActor"), signal.SIGKILL)
        async with calling(cluster, 1):
            pass

        async def is_whole_again() -> bool:
            return bool((await cluster.status(1)).get("ready"))

        await until(is_whole_again)
        await goes_on(person)


async def test_a_replica_that_is_killed_with_all_it_has_started(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        for _ in range(5):
            await until(cluster.whole)
            async with calling(cluster) as person:
                lost = person.replica
                parent = (await cluster.replicas())[lost]["pid"]
                for pid in [parent, *descendants(parent)]:
                    os.kill(pid, signal.SIGKILL)
                await person.afresh()
                person.front = 1
                status, answer = await person.offer()
                assert status == 200, answer
                await person.ready()
                assert person.replica != lost


async def test_load_starts_replicas_and_its_end_takes_them_away(tmp_path: Path) -> None:
    top = "min_replicas = 2\nmax_replicas = 3\noccupancy = 0.75\nscale_in_after_s = 5\n"
    async with running(tmp_path, top) as cluster:
        async with contextlib.AsyncExitStack() as calls:
            for i in range(4):
                await calls.enter_async_context(calling(cluster, i % 2))

            async def third_serves() -> bool:
                return len(await cluster.replicas()) == 3

            await until(third_serves, 60)
            await calls.enter_async_context(calling(cluster))

        async def two_are_left() -> bool:
            return len((await cluster.status())["replicas"]) == 2

        await until(two_are_left, 90)


async def test_a_rate_is_one_for_all_fronts(tmp_path: Path) -> None:
    secret = "a secret that is long enough"
    server = f'key_offers_per_minute = 3\nkeys = [{{name = "shop", secret = "{secret}"}}]\n'
    async with running(tmp_path, server=server) as cluster:
        headers = {"Authorization": f"Bearer {secret}"}

        async def start(front: int) -> int:
            url = f"{cluster.fronts[front]}/start"
            async with cluster.http.post(url, json={}, headers=headers) as response:
                return response.status

        assert [await start(0) for _ in range(4)] == [200, 200, 200, 429]

        let_in = 0
        while await start(1) == 200:
            let_in += 1
            await asyncio.sleep(0.5)
        assert let_in < 3, "by itself, the other front would let three in"
