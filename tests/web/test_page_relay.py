"""The page where only a TURN relay carries the call: coturn, with what the server hands out."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, Route, expect

from tests.coturn import SECRET, relaying
from tests.web.page_driver import START, expect_let_go, expect_problem, go_live, open_page, reach
from tests.web.real_server import RealServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

_ONLY_RELAYED = """
window.faults = [];
const Direct = window.RTCPeerConnection;
window.RTCPeerConnection = class extends Direct {
  constructor(options) {
    super({ ...options, iceTransportPolicy: "relay" });
    this.addEventListener("icecandidateerror", ({ errorCode }) => window.faults.push(errorCode));
  }
};
"""
"""A browser whose network lets nothing else through."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def relayed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealServer]:
    folder = tmp_path_factory.mktemp("relay")
    async with relaying(folder) as port:
        urls = [f"turn:127.0.0.1:{port}?transport={way}" for way in ("udp", "tcp")]
        settings = folder / "server.toml"
        settings.write_text(
            f"turn_secret = {json.dumps(SECRET)}\nice_servers = [{{urls = {json.dumps(urls)}}}]\n"
        )
        server = await RealServer.start("--config", str(settings))
        yield server
        await server.stop()


async def change_relay(page: Page, **changes: Any) -> None:
    """Let the page read other facts about the relay than those that the server gave."""

    async def answer(route: Route) -> None:
        response = await route.fetch()
        info = await response.json()
        info["ice_servers"][0].update(changes)
        await route.fulfill(response=response, json=info)

    await page.route("**/v1/info", answer)


@pytest.mark.parametrize("way", ["udp", "tcp"])
async def test_a_call_goes_through_the_relay(page: Page, relayed: RealServer, way: str) -> None:
    await page.add_init_script(_ONLY_RELAYED)
    if way == "tcp":
        page_url = relayed.url.rstrip("/")
        response = await page.request.get(f"{page_url}/v1/info")
        (relay,) = (await response.json())["ice_servers"]
        await change_relay(page, urls=[url for url in relay["urls"] if way in url])
    await go_live(page, relayed.url)
    await expect(page.locator("#fact-path")).to_have_text(f"relayed over {way.upper()}")
    await expect(page.locator("#meter-agent")).not_to_have_attribute(
        "aria-valuenow", "-60", timeout=20_000
    )
    await page.click("#hangup")
    await reach(page, "ended")
    await expect_let_go(page)


def credentials(secret: str, until_s: float) -> dict[str, str]:
    username = f"{until_s:.0f}:caller"
    digest = hmac.new(secret.encode(), username.encode(), hashlib.sha1).digest()
    return {"username": username, "credential": base64.b64encode(digest).decode()}


async def test_a_relay_that_refuses_expired_credentials_is_named(
    page: Page, relayed: RealServer
) -> None:
    await page.add_init_script(_ONLY_RELAYED)
    await change_relay(page, **credentials(SECRET, time.time() - 60))
    await page.clock.install()
    await open_page(page, relayed.url)
    await page.click(START)
    await reach(page, "connecting")
    for _ in range(40):
        await page.clock.run_for(20)
        if 401 in await page.evaluate("window.faults"):
            break
        await page.wait_for_timeout(100)
    await page.clock.run_for(15_000)
    await expect_problem(
        page, "no_network_path", "TURN relay", "refused the credentials", "turn_secret"
    )
    await expect_let_go(page)
