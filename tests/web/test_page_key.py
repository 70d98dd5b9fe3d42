"""A server that wants a key: the page brings it, and leaves it nowhere."""

from __future__ import annotations

import pytest
from aiohttp import web
from playwright.async_api import Page

from tests.web.fake_server import FakeServer, refusal
from tests.web.page_driver import START, expect_problem, open_page, reach

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

KEY = "k-1234567890"


def wanting_a_key(server: FakeServer) -> list[str]:
    """Make the server answer offers with that key alone; the headers that it saw."""
    seen: list[str] = []

    async def respond(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", ""))
        if seen[-1] != f"Bearer {KEY}":
            return await refusal(401, "unauthorized", "A key is needed.")(request)
        return await server.answer(request)

    server.respond = respond
    return seen


async def test_the_key_in_the_address_is_brought_and_disappears(
    page: Page, server: FakeServer
) -> None:
    seen = wanting_a_key(server)
    await open_page(page, f"{server.url}#key={KEY}")
    assert KEY not in page.url
    await page.click(START)
    await reach(page, "live")
    assert seen == [f"Bearer {KEY}"]
    kept = await page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    )
    assert KEY not in kept


async def test_without_a_key_the_page_says_how_to_bring_one(page: Page, server: FakeServer) -> None:
    seen = wanting_a_key(server)
    await open_page(page, server.url)
    await page.click(START)
    await expect_problem(page, "unauthorized", "key", "#key=")
    assert seen == [""]
    await page.evaluate(f"location.hash = 'key={KEY}'")
    await page.wait_for_function("!location.hash")
    await page.click(START)
    await reach(page, "live")
