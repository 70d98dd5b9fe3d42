"""What the tests do on the call page and read from it."""

from __future__ import annotations

from playwright.async_api import Page, expect

INSECURE_HOST = "rtc-agent.test"
"""Resolves to loopback in the browser, which does not take it for a secure context."""
START = "#start"
HANG_UP = "#hangup"
MUTE = "#mute"
STATE = "#state"


async def reach(page: Page, state: str, timeout_s: float = 10) -> None:
    """Wait until the page is in that state."""
    await expect(page.locator("body")).to_have_attribute(
        "data-state", state, timeout=timeout_s * 1_000
    )


async def open_page(page: Page, url: str, state: str = "ready") -> None:
    await page.goto(url)
    await reach(page, state)


async def go_live(page: Page, url: str) -> None:
    await open_page(page, url)
    await page.click(START)
    await reach(page, "live")


async def expect_problem(page: Page, code: str, *words: str) -> None:
    """The page names this problem, in these words, and says so to a screen reader."""
    box = page.locator("#problem")
    await expect(page.locator("body")).to_have_attribute("data-problem", code, timeout=10_000)
    await expect(box).to_be_visible()
    await expect(box).to_have_role("alert")
    for each in words:
        await expect(box).to_contain_text(each)


async def expect_let_go(page: Page) -> None:
    """No microphone is on, and no connection and no audio context is left."""
    tracks = await page.evaluate("() => window.tracks.map((track) => track.readyState)")
    assert set(tracks) <= {"ended"}, tracks
    contexts = await page.evaluate("() => window.contexts.map((context) => context.state)")
    assert set(contexts) <= {"closed"}, contexts
    peers = await page.evaluate("() => window.peers.map((peer) => peer.connectionState)")
    assert set(peers) <= {"closed"}, peers


async def lines(page: Page) -> list[tuple[str, str, str]]:
    """The conversation as (when, who, what)."""
    rows = await page.evaluate(
        """() => [...document.querySelectorAll("#log li")].map((row) =>
             [...row.children].map((part) => part.textContent))"""
    )
    return [tuple(row) for row in rows]
