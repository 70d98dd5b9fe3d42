"""A call whose connection was lost is taken up again, within the time that the server keeps it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.web.fake_server import FakeServer, refusal
from tests.web.page_driver import MUTE, STATE, expect_let_go, go_live, lines, reach
from tests.web.real_server import RealServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

NOTICED_MS = 7_000
"""Pings go unanswered for so long before the connection counts as lost."""


async def lose(page: Page, server: FakeServer) -> None:
    """The server goes quiet, and the page notices."""
    server.answers_pings = False
    await page.clock.run_for(NOTICED_MS)


async def test_the_call_goes_on_over_another_connection(page: Page, server: FakeServer) -> None:
    await page.clock.install()
    await go_live(page, server.url)
    server.send("text", frame=1, delta="Before.\n")
    await expect(page.locator("#log")).to_contain_text("Before.")
    await page.click(MUTE)
    server.received.clear()
    await lose(page, server)
    server.answers_pings = True
    await server.until(lambda: any(m["type"] == "mute" for m in server.received))
    await reach(page, "live")
    _, again = server.offers
    assert (again["pc_id"], again["restart_pc"]) == ("fake", True)
    server.send("text", frame=90, delta="After.\n")
    await expect(page.locator("#log")).to_contain_text("After.")
    said = [what for _, _, what in await lines(page)]
    assert said == [
        "Before.",
        "The connection is back, and the conversation goes on.",
        "After.",
    ]
    await expect(page.locator(STATE)).to_have_text("Live, you are muted")
    playing = await page.evaluate(
        """() => document.getElementById("remote").srcObject.getAudioTracks()[0]
                 === window.peers[1].getReceivers()[0].track"""
    )
    assert playing
    await page.wait_for_function("() => window.peers[0].connectionState === 'closed'")


async def test_a_relays_new_credentials_are_fetched_first(page: Page, server: FakeServer) -> None:
    def relay(username: str) -> list[dict[str, str]]:
        return [{"urls": "turn:127.0.0.1:9", "username": username, "credential": "c"}]

    server.info["ice_servers"] = relay("good for an hour")
    await page.clock.install()
    await go_live(page, server.url)
    server.info["ice_servers"] = relay("good for another")
    await lose(page, server)
    server.answers_pings = True
    await page.wait_for_function("() => window.peers.length > 1")
    names = await page.evaluate(
        "() => window.peers.map((peer) => peer.getConfiguration().iceServers[0].username)"
    )
    assert names[:2] == ["good for an hour", "good for another"]
    await reach(page, "live")


async def test_a_conversation_that_was_let_go_begins_anew_and_says_so(
    page: Page, server: FakeServer
) -> None:
    await page.clock.install()
    await go_live(page, server.url)
    server.send("text", frame=1, delta="Before.\n")
    server.pc_id = "another"
    server.rewind(2)
    await lose(page, server)
    await expect(page.locator("#log")).to_contain_text("so a new one begins")
    await reach(page, "live")


async def test_it_is_tried_three_times(page: Page, server: FakeServer) -> None:
    await page.clock.install()
    await go_live(page, server.url)
    server.respond = refusal(503, "server_draining", "Stopping.")
    await lose(page, server)
    await reach(page, "interrupted")
    await page.clock.run_for(2_500)
    await expect(page.locator(STATE)).to_contain_text("try 2 of 3")
    await page.clock.run_for(12_000)
    await reach(page, "ended")
    await expect(page.locator(STATE)).to_contain_text("The connection was lost")
    await server.until(lambda: len(server.offers) == 4)
    assert [offer["restart_pc"] for offer in server.offers] == [False, True, True, True]
    await expect_let_go(page)


async def test_a_connection_that_comes_back_by_itself_is_kept(
    page: Page, server: FakeServer
) -> None:
    await page.clock.install()
    await go_live(page, server.url)
    server.respond = refusal(503, "server_draining", "Stopping.")
    await lose(page, server)
    await reach(page, "interrupted")
    server.answers_pings = True
    await page.clock.run_for(2_000)
    await reach(page, "live")
    await page.clock.run_for(20_000)
    await reach(page, "live")


@pytest_asyncio.fixture(loop_scope="session")
async def real_server() -> AsyncIterator[RealServer]:
    started = await RealServer.start("--sessions", "1")
    yield started
    await started.stop()


async def test_the_real_server_gives_the_conversation_back(
    page: Page, real_server: RealServer
) -> None:
    await page.add_init_script(
        """
        window.deaf = new Set();
        window.channels = [];
        const send = RTCDataChannel.prototype.send;
        RTCDataChannel.prototype.send = function (data) {
          if (!window.deaf.has(this)) send.call(this, data);
        };
        const make = RTCPeerConnection.prototype.createDataChannel;
        RTCPeerConnection.prototype.createDataChannel = function (...options) {
          const channel = make.apply(this, options);
          window.channels.push(channel);
          channel.addEventListener("message", (event) => {
            if (window.deaf.has(channel)) event.stopImmediatePropagation();
          });
          return channel;
        };"""
    )
    await go_live(page, real_server.url)
    await page.evaluate("() => { window.deaf.add(window.channels[0]); }")
    await expect(page.locator("#log")).to_contain_text("the conversation goes on", timeout=20_000)
    await reach(page, "live")
    before = await page.locator("#log .row.agent").count()
    await expect(page.locator("#log .row.agent")).not_to_have_count(before, timeout=20_000)
