"""A cluster on a real Ray, with real calls: two replicas of the echo agent, two fronts."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from rtc_agent.protocol.events import FRAME_MS
from tests.cluster.running import Cluster, Person, calling, descendants, folders_of, until
from tests.process_tree import is_alive

# Ray itself is not imported here: it takes seconds, and this process does not use it.
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    cluster = await Cluster.start(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        if cluster.process.returncode is None:
            await cluster.stop()
    assert "Traceback" not in cluster.log, cluster.log
    assert "never retrieved" not in cluster.log, cluster.log


async def test_calls_are_placed_on_both_through_either_front_and_no_slot_twice(
    cluster: Cluster,
) -> None:
    await until(cluster.whole)
    async with contextlib.AsyncExitStack() as stack:
        people = [await stack.enter_async_context(calling(cluster, i % 2)) for i in range(4)]
        assert sorted(person.replica for person in people) == sorted(
            [*await cluster.replicas()] * 2
        )
        refused = Person(cluster, 1)
        status, answer = await refused.offer()
        assert (status, answer["error"]["code"]) == (503, "server_full")
        await refused.caller.close()

        async def all_are_seen(front: int) -> bool:
            calls = (await cluster.get("/v1/calls", front))["calls"]
            return len(calls) == 4 and await cluster.free(front) == 0

        for front in (0, 1):
            await until(lambda front=front: all_are_seen(front))
        # What belongs to a call finds it by another front than the one that placed it.
        one = people[0]
        patch = {"pc_id": one.pc_id, "candidates": [{"candidate": "", "sdp_mid": "0"}]}
        async with cluster.http.patch(f"{cluster.fronts[1]}/api/offer", json=patch) as response:
            assert response.status == 200, await response.text()
        public = (await one.ready())["call_id"]
        async with cluster.http.delete(f"{cluster.fronts[1]}/v1/calls/{public}") as response:
            assert response.status == 204
        await until(lambda: one.told("ended"))
        assert one.told("ended")[0]["reason"] == "ended_by_operator"
    await until(cluster.whole)


async def test_who_loses_a_replica_is_told_and_comes_back_to_another(cluster: Cluster) -> None:
    await until(cluster.whole)
    async with calling(cluster) as person, calling(cluster) as neighbour:
        lost, old_id = person.replica, person.pc_id
        assert neighbour.replica != lost
        os.kill((await cluster.replicas())[lost]["pid"], signal.SIGKILL)
        await until(lambda: person.told("ended"))
        # By whichever of its processes is the first to notice that nobody watches over them.
        assert person.told("ended")[0]["reason"] in ("server_stopping", "agent_failed")
        patch = {"pc_id": old_id, "candidates": []}
        async with cluster.http.patch(f"{cluster.fronts[0]}/api/offer", json=patch) as response:
            assert response.status == 410, await response.text()
            assert (await response.json())["error"]["code"] == "call_lost"
        await person.afresh()
        person.front = 1
        status, answer = await person.offer()
        assert status == 200, answer
        await person.ready()
        assert person.replica == neighbour.replica
        await until(lambda: person.told("notice"))
        assert person.told("notice")[0]["code"] == "new_conversation"
        assert not neighbour.told("ended")
        heard = len(neighbour.caller.packets)
        await until(lambda: len(neighbour.caller.packets) > heard + 20)

        async def another_is_in_its_place() -> bool:
            replicas = await cluster.replicas()
            return len(replicas) == 2 and lost not in replicas

        await until(another_is_in_its_place)
    await until(cluster.whole)


async def test_a_drained_replica_keeps_its_calls_and_gets_no_more(cluster: Cluster) -> None:
    await until(cluster.whole)
    async with calling(cluster) as person:
        leaving = person.replica
        await cluster.run("drain", leaving, "--name", cluster.name)

        async def both_fronts_know() -> bool:
            return all([len(await cluster.replicas(front)) == 2 for front in (0, 1)])

        await until(both_fronts_know)
        for front in (0, 1):
            async with calling(cluster, front) as other:
                assert other.replica != leaving
        frame = person.frame
        await until(lambda: person.frame > frame + 1_000 / FRAME_MS)
        # That a busy machine leaves frames out is not what is looked at here.
        assert not person.told("ended")
        assert {notice["code"] for notice in person.told("notice")} <= {"overload"}
        parts = {part["id"]: part for part in (await cluster.status())["replicas"]}
        assert parts[leaving]["phase"] == "draining" and parts[leaving]["calls"] == 1

    async def gone() -> bool:
        return leaving not in {part["id"] for part in (await cluster.status())["replicas"]}

    await until(gone)
    await until(cluster.whole)


async def test_the_end_is_told_and_leaves_no_process_and_no_file(cluster: Cluster) -> None:
    """The last test of the cluster."""
    async with calling(cluster) as person:
        processes = descendants(cluster.process.pid)
        assert len(processes) > 8
        folders = [Path(path) for path in folders_of(processes)]
        assert folders
        assert await cluster.stop() == 0
        await until(lambda: person.told("ended"))
        assert person.told("ended")[0]["reason"] == "server_stopping"
        await until(lambda: not any(is_alive(pid) for pid in processes))
        assert not [folder for folder in folders if folder.exists()]
