"""A WHIP caller whose network path was lost comes back to its call by an ICE restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
from aiortc.sdp import candidate_from_sdp

from rtc_agent.media import ice_restart
from rtc_agent.media.ice_restart import IceRestart
from rtc_agent.protocol.whip import FRAGMENT, SDP, parse_fragment, write_fragment
from tests.media.peers import LOOPBACK, Caller
from tests.media.test_ice_restart import lose_path, until
from tests.real_server import serving

SETTINGS = "vanished_after_s = 1.5\nreconnect_grace_s = 60\n"


async def test_the_conversation_goes_on_over_another_path(tmp_path: Path) -> None:
    settings = tmp_path / "rtc-agent.toml"
    settings.write_text(SETTINGS)
    caller = Caller(channel=None)
    offer = await caller.offer()
    ice_restart.allow_restarts(caller.pc)
    async with (
        serving("--agent", "echo", "--config", str(settings)) as server,
        aiohttp.ClientSession(server.url) as http,
    ):

        async def until_state(wanted: str) -> dict[str, Any]:
            async with asyncio.timeout(20):
                while True:
                    [call] = (await (await http.get("/v1/calls")).json())["calls"]
                    if call["state"] == wanted:
                        return dict(call)
                    await asyncio.sleep(0.1)

        made = await http.post("/whip", data=offer, headers={"Content-Type": SDP})
        session = made.headers["Location"]
        await caller.accept(await made.text())
        before = await until_state("live")
        lose_path(caller)
        await until_state("reconnecting")

        theirs = await IceRestart.begin(caller.pc, LOOPBACK, lambda: None)
        body = write_fragment("0", theirs.ufrag, theirs.password, theirs.candidates)
        headers = {"Content-Type": FRAGMENT, "If-Match": "*"}
        answered = await http.patch(session, data=body, headers=headers)
        assert answered.status == 200 and answered.headers["ETag"] != made.headers["ETag"]
        ours = parse_fragment(await answered.text())
        for candidate in ours.candidates:
            await theirs.add_candidate(candidate_from_sdp(candidate.text))
        assert ours.ufrag and ours.password
        theirs.start(ours.ufrag, ours.password)

        after = await until_state("live")
        assert after["call_id"] == before["call_id"] and after["frames"] > before["frames"]
        heard = len(caller.packets)
        await until(lambda: len(caller.packets) > heard + 25, 20)
        assert caller.pc.connectionState == "connected"
        assert (await http.delete(session)).status == 200
    await caller.close()
