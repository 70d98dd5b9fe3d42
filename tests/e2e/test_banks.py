"""`serve --banks`: calls in every bank of a real server."""

from __future__ import annotations

import contextlib

from rtc_agent.client.call_client import CallClient
from rtc_agent.client.offer import SmallWebRtcSignaling
from tests.e2e.test_media_workers import ICE, until
from tests.e2e.test_reconnect import Returning
from tests.real_server import serving


async def test_calls_in_both_banks_are_answered_and_one_comes_back_to_its_own() -> None:
    async with (
        serving("--agent", "echo", "--sessions", "2", "--banks", "2") as server,
        contextlib.AsyncExitStack() as calls,
    ):
        # Two slots in two banks: one call in each.
        it = Returning(server)
        await it.offer()
        await it.message("ready")
        other = await calls.enter_async_context(
            CallClient(SmallWebRtcSignaling(server.url), ice=ICE)
        )
        await other.connect()
        await other.wait_ready()
        assert await server.free_slots() == 0
        await until(lambda: other.log.last_arrival_s)
        lost = it.cut_off()
        await it.offer()
        await it.message("stats")
        assert await server.free_slots() == 0 and other.ended is None
        info = await server.info()
        assert info["engine"]["banks"] == 2 and info["slots"]["total"] == 2
        await lost.close()
        await it.caller.close()
    assert "ERROR" not in server.log, server.log
