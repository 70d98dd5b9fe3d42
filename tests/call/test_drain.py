"""A server that is told to stop lets calls finish, for a while."""

from __future__ import annotations

import asyncio

import pytest

from rtc_agent.call.state import EndReason
from rtc_agent.errors import ServerDraining
from tests.call.fakes import CallBench, call_bench


async def draining(bench: CallBench, seconds: float, hurry: asyncio.Event) -> asyncio.Task[None]:
    task = asyncio.create_task(bench.registry.drain(seconds, hurry))
    await asyncio.sleep(0)
    return task


async def test_calls_are_told_and_may_finish() -> None:
    async with call_bench() as bench:
        call, transport = await bench.live()
        task = await draining(bench, 30, asyncio.Event())
        with pytest.raises(ServerDraining):
            await bench.place()
        await bench.run(10, transport)
        assert not task.done() and call.reason is None
        assert [n["code"] for n in transport.of("notice")] == ["draining"]
        call.end(EndReason.HANGUP)
        await bench.run(1)
        assert task.done(), "nobody is left to wait for"


async def test_the_time_is_limited() -> None:
    async with call_bench() as bench:
        call, transport = await bench.live()
        task = await draining(bench, 5, asyncio.Event())
        await bench.run(4.5, transport)
        assert not task.done()
        await bench.run(1, transport)
        assert task.done() and call.reason is None
        await bench.registry.aclose(1)
        assert call.reason is EndReason.SERVER_STOPPING


async def test_a_second_signal_ends_the_wait() -> None:
    async with call_bench() as bench:
        _, transport = await bench.live()
        hurry = asyncio.Event()
        task = await draining(bench, 300, hurry)
        hurry.set()
        await bench.run(0.5, transport)
        assert task.done()


async def test_without_drain_time_nothing_waits() -> None:
    async with call_bench() as bench:
        await bench.live()
        await bench.registry.drain(0)
        assert bench.registry.draining
