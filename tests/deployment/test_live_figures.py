"""A real Prometheus with our settings watches a real server during calls: each panel shows them."""

from __future__ import annotations

import asyncio
import math
from asyncio.subprocess import DEVNULL
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rtc_agent.client.offer import SmallWebRtcSignaling
from rtc_agent.client.place_call import CallOrder, place_call
from rtc_agent.errors import CallRefused
from rtc_agent.media.ice import IceSettings
from tests.client.audio import save_wav, speech
from tests.deployment.files import DOCKER
from tests.deployment.metrics import dashboard_queries
from tests.deployment.prometheus import require_prometheus
from tests.real_server import serving
from tests.telephony.gateway import free_port

pytestmark = pytest.mark.soak

ICE = IceSettings(hosts=("127.0.0.1",))
CALLS = 2


async def test_every_panel_has_something_to_show(tmp_path: Path) -> None:
    voice = save_wav(tmp_path / "speech.wav", speech(3))
    async with serving(
        *("--agent", "echo", "--sessions", str(CALLS), "--media-workers", "2")
    ) as server:
        target = server.url.removeprefix("http://")
        given = (DOCKER / "prometheus" / "prometheus.yml").read_text()
        assert "127.0.0.1:8080" in given and "scrape_interval: 5s" in given
        settings = tmp_path / "prometheus.yml"
        settings.write_text(
            given.replace("127.0.0.1:8080", target).replace("interval: 5s", "interval: 1s")
        )
        (tmp_path / "alerts.yml").write_text((DOCKER / "prometheus" / "alerts.yml").read_text())
        address = f"127.0.0.1:{free_port()}"
        prometheus = await asyncio.create_subprocess_exec(
            require_prometheus("prometheus"),
            f"--config.file={settings}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address={address}",
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
        try:
            async with aiohttp.ClientSession(f"http://{address}") as http:
                await until_scraped(http)
                outputs = [tmp_path / f"{i}.wav" for i in range(CALLS)]
                calls = [
                    asyncio.create_task(place_call(CallOrder(server.url, voice, out, ice=ICE)))
                    for out in outputs
                ]
                while await server.free_slots():
                    await asyncio.sleep(0.1)
                with pytest.raises(CallRefused):
                    await SmallWebRtcSignaling(server.url).answer("v=0")
                for report in await asyncio.gather(*calls):
                    assert report.complete
                unseen = {q for q in dashboard_queries() if "rtc_agent_cluster_" not in q}
                async with asyncio.timeout(30):
                    while unseen:
                        await asyncio.sleep(1)
                        unseen = {q for q in unseen if not shows(await ask(http, q))}
        except TimeoutError:
            pytest.fail(f"nothing to show for {unseen}")
        finally:
            prometheus.terminate()
            await prometheus.wait()


async def until_scraped(http: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                if shows(await ask(http, 'up{job="rtc-agent"} == 1')):
                    return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.2)


async def ask(http: aiohttp.ClientSession, query: str) -> list[Any]:
    async with http.get("/api/v1/query", params={"query": query}) as response:
        answer = await response.json()
        assert answer["status"] == "success", answer
        found: list[Any] = answer["data"]["result"]
        return found


def shows(result: list[Any]) -> bool:
    return any(not math.isnan(float(series["value"][1])) for series in result)
