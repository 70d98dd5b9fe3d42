"""The phone line inside `serve`, as its settings have it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from rtc_agent import server
from rtc_agent.config import load
from rtc_agent.telephony.config import TelephonySettings
from tests.telephony.gateway import RealJanus, media_host
from tests.telephony.registrar import Registrar
from tests.telephony.softphone import Softphone
from tests.telephony.test_real_scripts import chirps, echoed

pytestmark = [pytest.mark.telephony, pytest.mark.timeout(90)]


@contextlib.asynccontextmanager
async def serving_phones(folder: Path) -> AsyncIterator[tuple[str, str, RealJanus]]:
    """A server with a phone line; the address to call, the page's URL, the gateway."""
    stop = asyncio.Event()
    told: asyncio.Queue[str] = asyncio.Queue()
    registrar, janus = Registrar(), RealJanus(folder)
    await registrar.start()
    await janus.start()
    host = media_host()
    assert host is not None
    line = TelephonySettings(janus=janus.url, proxy=registrar.uri, password="")
    settings = load(None, agent="echo", port=0, ice_hosts=[host], telephony=line)
    task = asyncio.create_task(server.run(settings, told.put_nowait, stop))
    try:
        url = await asyncio.wait_for(told.get(), 20)
        yield await registrar.registered(), url, janus
    finally:
        stop.set()
        await asyncio.wait([task], timeout=15)
        await janus.kill()
        registrar.close()
    task.result()


async def readiness(url: str) -> tuple[int, dict[str, object]]:
    async with aiohttp.ClientSession() as http, http.get(f"{url}readyz") as response:
        return response.status, (await response.json())["phone"]


async def test_a_telephone_reaches_the_servers_own_agent_and_readiness_tells_of_the_line(
    tmp_path: Path,
) -> None:
    async with serving_phones(tmp_path) as (uri, url, janus):
        phone = Softphone(("PCMU", "G722"))
        try:
            assert (await phone.call(uri)).status == 200
            assert phone.codec.name == "G722"
            assert echoed(await chirps(phone))
            assert (await phone.bye()).status == 200
        finally:
            phone.close()
        async with asyncio.timeout(10):
            while await readiness(url) != (200, {"ready": True, "detail": ""}):
                await asyncio.sleep(0.1)
        await janus.kill()
        async with asyncio.timeout(10):
            while (await readiness(url))[0] != 503:
                await asyncio.sleep(0.1)
        assert (await readiness(url))[1]["detail"]
