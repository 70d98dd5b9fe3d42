"""The page fits: every state at phone, tablet and desktop width."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.web.fake_server import FakeServer, refusal
from tests.web.page_driver import HANG_UP, MUTE, START, expect_problem, go_live, open_page

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SIZES = ((320, 568), (360, 740), (740, 360), (900, 700), (1280, 800))
TOUCH_TARGET_PX = 44


async def expect_fits(page: Page) -> None:
    """Nothing sticks out to the side."""
    wide, seen = await page.evaluate(
        "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= seen, page.viewport_size


async def expect_in_reach(page: Page, selector: str) -> None:
    """Visible without scrolling, and large enough for a thumb."""
    box = await page.locator(selector).bounding_box()
    view = page.viewport_size
    assert box is not None and view is not None
    assert box["height"] >= TOUCH_TARGET_PX
    assert 0 <= box["x"] and box["x"] + box["width"] <= view["width"], (selector, view)
    assert 0 <= box["y"] and box["y"] + box["height"] <= view["height"], (selector, view)


async def use(page: Page, size: tuple[int, int]) -> None:
    await page.set_viewport_size({"width": size[0], "height": size[1]})
    await page.evaluate("() => new Promise(requestAnimationFrame)")


async def test_before_the_call(page: Page, server: FakeServer) -> None:
    long = "A voice whose name is a good deal longer than any select box is wide"
    server.info |= {
        "voices": [long],
        "voice_samples": [long],
        "takes_persona": True,
        "persona_max_chars": 1_000,
        "persona_names": ["Nova", "N" * 40],
        "description": "such as " + "e" * 80,
        "capabilities": {"recording": True},
    }
    await open_page(page, server.url)
    for size in SIZES:
        await use(page, size)
        await expect_fits(page)
        await expect_in_reach(page, START)


async def test_in_the_call(page: Page, server: FakeServer) -> None:
    await page.add_init_script(
        """HTMLMediaElement.prototype.play =
             () => Promise.reject(new DOMException("a touch is needed", "NotAllowedError"));"""
    )
    await go_live(page, server.url)
    server.send("notice", code="recording", message="This call is recorded, as you agreed.")
    server.send("text", delta="Averylongwordwithoutanyplacetobreakit" * 5 + "\n")
    for turn in range(20):
        server.send("text", frame=turn * 20, delta=f"Line {turn} of what is said.\n")
    await expect(page.get_by_text("Line 19")).to_be_visible()
    for number, size in enumerate(SIZES):
        await use(page, size)
        await page.locator(".log").evaluate("(log) => (log.scrollTop = log.scrollHeight)")
        server.send("text", frame=500 + number, delta=f"Size {number}.\n")
        await expect(page.get_by_text(f"Size {number}.")).to_be_visible()
        await expect_fits(page)
        for each in (HANG_UP, MUTE, "#sound"):
            await expect_in_reach(page, each)
        at_end = await page.locator(".log").evaluate(
            "(log) => log.scrollHeight - log.scrollTop - log.clientHeight < 2"
        )
        assert at_end


async def test_when_it_fails(page: Page, server: FakeServer) -> None:
    server.respond = refusal(503, "engine_failed", "x" * 300)
    await open_page(page, server.url)
    await page.click(START)
    await expect_problem(page, "engine_failed")
    for size in SIZES:
        await use(page, size)
        await expect_fits(page)
