"""What keeps a call from starting, and that the page says it in words a caller can act on."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from playwright.async_api import Page, expect

from tests.web.fake_server import FakeServer, refusal
from tests.web.page_driver import (
    HANG_UP,
    INSECURE_HOST,
    START,
    expect_let_go,
    expect_problem,
    go_live,
    open_page,
    reach,
)

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_an_insecure_origin_is_told_before_any_click(page: Page, server: FakeServer) -> None:
    await page.goto(f"http://{INSECURE_HOST}:{server.port}/")
    await expect_problem(
        page, "insecure", INSECURE_HOST, "HTTPS", f"http://localhost:{server.port}"
    )
    await expect(page.locator(START)).to_be_disabled()


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("NotAllowedError", "microphone_refused", "site settings"),
        ("NotFoundError", "microphone_missing", "no microphone"),
        ("NotReadableError", "microphone_busy", "Another program"),
        ("TypeError", "microphone_failed", "TypeError"),
    ],
)
async def test_each_microphone_fault_has_its_own_words(
    page: Page, server: FakeServer, name: str, code: str, words: str
) -> None:
    await page.add_init_script(
        f"""navigator.mediaDevices.getUserMedia =
            async () => {{ throw new DOMException("not this time", "{name}"); }};"""
    )
    await open_page(page, server.url)
    await page.click(START)
    await expect_problem(page, code, words)
    await reach(page, "failed")
    await expect_let_go(page)
    assert server.offers == []


async def test_a_chosen_microphone_that_is_gone_gives_way_to_the_default(
    page: Page, server: FakeServer
) -> None:
    await page.add_init_script(
        """
        localStorage.setItem("rtc-agent.microphone", "gone");
        const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.enumerateDevices = async () =>
          [{ kind: "audioinput", deviceId: "gone", label: "Headset" }];
        navigator.mediaDevices.getUserMedia = async (wanted) => {
          if (wanted.audio.deviceId?.exact === "gone") {
            throw new DOMException("no such device", "OverconstrainedError");
          }
          return open(wanted);
        };"""
    )
    await open_page(page, server.url)
    await expect(page.locator("#microphone")).to_have_value("gone")
    await page.click(START)
    await reach(page, "live")


async def test_a_full_server_says_when_to_try_again(page: Page, server: FakeServer) -> None:
    server.respond = refusal(503, "server_full", "All slots are taken.", **{"Retry-After": "30"})
    server.info["slots"] = {"total": 4, "free": 0}
    await open_page(page, server.url)
    await page.click(START)
    await expect_problem(page, "server_full", "All lines are busy")
    await expect(page.locator(START)).to_contain_text("Try again in 30 s")
    await expect(page.locator("#lines")).to_have_text("All lines busy")
    await expect_let_go(page)

    server.respond = server.answer
    await page.click(START)
    await reach(page, "live")
    await expect(page.locator("#problem")).to_be_hidden()


async def test_the_line_of_ones_own_call_is_told_when_it_is_free_again(
    page: Page, server: FakeServer
) -> None:
    server.info["slots"] = {"total": 1, "free": 1}
    await go_live(page, server.url)
    server.info["slots"] = {"total": 1, "free": 0}
    await expect(page.locator("#lines")).to_be_hidden()
    await page.click(HANG_UP)
    await expect(page.locator("#lines")).to_have_text("All lines busy", timeout=30_000)
    server.info["slots"] = {"total": 1, "free": 1}
    await expect(page.locator("#lines")).to_have_text("1 of 1 line free", timeout=30_000)
    await expect(page.locator("#lines")).to_be_visible()


async def _proxy_page(_: web.Request) -> web.StreamResponse:
    return web.Response(status=503, text="<h1>503</h1>", headers={"Retry-After": "5"})


async def _no_json(_: web.Request) -> web.StreamResponse:
    return web.Response(text="hello")


@pytest.mark.parametrize(
    ("respond", "code", "words"),
    [
        (refusal(503, "server_draining", "Stopping."), "server_draining", "shutting down"),
        (refusal(503, "engine_failed", "Out of memory."), "engine_failed", "Out of memory."),
        (refusal(400, "unknown_voice", "No voice X."), "unknown_voice", "No voice X."),
        (_proxy_page, "gateway", "proxy"),
        (_no_json, "not_our_server", "does not speak"),
    ],
    ids=["draining", "engine", "voice", "proxy", "no-json"],
)
async def test_no_other_refusal_reads_like_a_full_server(
    page: Page, server: FakeServer, respond: Any, code: str, words: str
) -> None:
    server.respond = respond
    await open_page(page, server.url)
    await page.click(START)
    await expect_problem(page, code, words)
    await expect(page.locator("#problem")).not_to_contain_text("busy")
    await expect_let_go(page)


async def test_a_server_that_went_away_is_named_and_found_again(
    page: Page, server: FakeServer
) -> None:
    await open_page(page, server.url)
    await page.context.set_offline(True)
    await page.click(START)
    await expect_problem(page, "unreachable", f"127.0.0.1:{server.port}")
    await expect_let_go(page)
    await page.context.set_offline(False)
    await page.click(START)
    await reach(page, "live")


async def test_the_page_waits_for_a_server_that_is_not_there_yet(
    page: Page, server: FakeServer
) -> None:
    await page.route("**/v1/info", lambda route: route.abort())
    await open_page(page, server.url, "unreachable")
    await expect_problem(page, "unreachable")
    await page.unroute("**/v1/info")
    await reach(page, "ready")
    await expect(page.locator("#problem")).to_be_hidden()


@pytest.mark.parametrize(
    ("ice_servers", "words"),
    [
        ([], "None is set up"),
        (
            [{"urls": ["turn:127.0.0.1:9"], "username": "u", "credential": "c"}],
            "did not carry the call either",
        ),
    ],
    ids=["without-turn", "with-turn"],
)
async def test_no_network_path_is_told_within_15_seconds(
    page: Page, server: FakeServer, ice_servers: list[dict[str, Any]], words: str
) -> None:
    server.info["ice_servers"] = ice_servers
    server.respond = server.answer_unreachable
    await page.clock.install()
    await open_page(page, server.url)
    await page.click(START)
    await reach(page, "connecting")
    await page.clock.run_for(1_000)
    await expect(page.locator("body")).to_have_attribute("data-state", "connecting")
    await page.clock.run_for(14_000)
    await expect_problem(page, "no_network_path", "UDP", "TURN", words)
    await reach(page, "failed")
    await expect_let_go(page)


async def test_a_cancelled_permission_prompt_lets_a_late_microphone_go(
    page: Page, server: FakeServer
) -> None:
    await page.add_init_script(
        """
        const open = navigator.mediaDevices.getUserMedia;
        navigator.mediaDevices.getUserMedia = async (wanted) => {
          await new Promise((resolve) => { window.allow = resolve; });
          return open(wanted);
        };"""
    )
    await open_page(page, server.url)
    await page.click(START)
    await reach(page, "requesting")
    await page.click("#hangup")
    await reach(page, "ready")
    await page.evaluate("() => window.allow()")
    await page.wait_for_function("() => window.tracks.length === 1")
    await expect_let_go(page)
    assert server.offers == []
