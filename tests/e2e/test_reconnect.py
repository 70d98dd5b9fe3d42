"""A caller that falls off the network comes back to its call: real server, real packets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp

from tests.media.peers import Caller
from tests.real_server import RealServer, serving

WAIT_S = 20.0


class Returning:
    """A caller that can be cut off, and offer again under the id it was given."""

    def __init__(self, server: RealServer) -> None:
        self.server = server
        self.pc_id: str | None = None
        self.caller = Caller()

    async def offer(self) -> None:
        body = {
            "sdp": await self.caller.offer(),
            "type": "offer",
            "pc_id": self.pc_id,
            "restart_pc": self.pc_id is not None,
        }
        async with aiohttp.ClientSession() as http:
            async with http.post(f"{self.server.url}/api/offer", json=body) as response:
                answer = await response.json()
                assert response.status == 200, answer
        self.pc_id = answer["pc_id"]
        await self.caller.accept(answer["sdp"])

    async def message(self, type_: str) -> dict[str, Any]:
        """The first message of that type on the current connection."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for text in self.caller.messages:
                    if (message := json.loads(text))["type"] == type_:
                        return dict(message)
                await asyncio.sleep(0.05)

    def cut_off(self) -> Caller:
        """No packet leaves or arrives any more, and nobody is told; the connection that was."""
        assert self.caller.pc.sctp is not None
        for protocol in self.caller.pc.sctp.transport.transport._connection._protocols:
            protocol.transport.abort()
        lost, self.caller = self.caller, Caller()
        return lost


async def test_who_comes_back_in_time_goes_on_in_the_same_conversation() -> None:
    async with serving("--agent", "echo") as server:
        it = Returning(server)
        await it.offer()
        first = await it.message("ready")
        before = await it.message("stats")
        lost = it.cut_off()
        await asyncio.sleep(5.0)
        assert await server.free_slots() == 3, "the slot is kept"
        await it.offer()
        again = await it.message("ready")
        after = await it.message("stats")
        assert again["call_id"] == first["call_id"]
        assert after["frame"] > before["frame"] + 5_000 / 80
        assert await server.free_slots() == 3
        await it.caller.close()
        await lost.close()
        async with asyncio.timeout(WAIT_S):
            while await server.free_slots() < 4:
                await asyncio.sleep(0.1)


async def test_who_does_not_come_back_frees_the_slot(tmp_path: Path) -> None:
    settings = tmp_path / "rtc-agent.toml"
    settings.write_text("vanished_after_s = 3\nreconnect_grace_s = 4\n")
    async with serving("--agent", "echo", "--config", str(settings)) as server:
        it = Returning(server)
        await it.offer()
        await it.message("ready")
        lost = it.cut_off()
        async with asyncio.timeout(WAIT_S):
            while await server.free_slots() < 4:
                await asyncio.sleep(0.1)
        await it.offer()
        assert await it.message("ready"), "too late is a new call"
        await it.caller.close()
        await lost.close()
