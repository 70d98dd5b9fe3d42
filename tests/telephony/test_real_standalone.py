"""The bridge apart from server and gateway: audio flows between those two."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rtc_agent import server
from rtc_agent.config import Settings
from rtc_agent.telephony import standalone
from tests.telephony.gateway import RealJanus, media_host
from tests.telephony.registrar import Registrar
from tests.telephony.softphone import Softphone
from tests.telephony.test_real_scripts import chirps, echoed

pytestmark = [pytest.mark.telephony, pytest.mark.timeout(90)]


@contextlib.asynccontextmanager
async def everything(folder: Path) -> AsyncIterator[str]:
    """Server, gateway and bridge; the address to call."""
    stop = asyncio.Event()
    told: asyncio.Queue[str] = asyncio.Queue()
    registrar, janus = Registrar(), RealJanus(folder)
    await registrar.start()
    await janus.start()
    host = media_host()
    assert host is not None
    settings = Settings(agent="echo", port=0, ice_hosts=[host], sessions=1)
    tasks = [asyncio.create_task(server.run(settings, told.put_nowait, stop))]
    try:
        url = await asyncio.wait_for(told.get(), 20)
        line = standalone.load(
            None, janus=janus.url, proxy=registrar.uri, password="", full_code=503
        )
        tasks.append(asyncio.create_task(standalone.run(line, [url], told.put_nowait, stop)))
        assert await asyncio.wait_for(told.get(), 20) == "sip:agent@127.0.0.1"
        yield await registrar.registered()
    finally:
        stop.set()
        await asyncio.wait(tasks, timeout=15)
        await janus.kill()
        registrar.close()


async def test_a_call_reaches_a_server_elsewhere_and_frees_it_again(tmp_path: Path) -> None:
    async with everything(tmp_path) as uri:
        for _ in range(2):
            phone, second = Softphone(("PCMU", "G722")), Softphone()
            try:
                assert (await phone.call(uri)).status == 200
                assert phone.codec.name == "G722"
                assert (await second.call(uri)).status == 503
                assert echoed(await chirps(phone))
                assert (await phone.bye()).status == 200
                await asyncio.sleep(2)
            finally:
                phone.close()
                second.close()
