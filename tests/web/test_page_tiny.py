"""The page against the tiny agent: a persona goes with the call, and the agent's words come."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.web.page_driver import START, lines, open_page, reach
from tests.web.real_server import RealServer

LEAST_LETTERS = 8
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_persona_is_asked_for_and_words_arrive(page: Page, tmp_path: Path) -> None:
    server = await RealServer.start("--agent", "tiny", "--sessions", "1")
    try:
        await open_page(page, server.url)
        persona = page.locator("#persona")
        await expect(persona).to_be_visible()
        await expect(page.locator("#voice")).to_be_hidden()
        await expect(page.locator("#persona-count")).to_have_text(
            "119 of about 119 characters left"
        )
        await persona.fill("a" * 120)
        await expect(page.locator("#persona")).to_have_attribute("aria-invalid", "true")
        await page.click(START)
        await expect(page.locator("#problem")).to_contain_text("this model takes 133 at most")
        await persona.fill("You are kind.")
        await page.click(START)
        await reach(page, "live")
        said = ""
        async with asyncio.timeout(20):
            while len(said) < LEAST_LETTERS:
                await asyncio.sleep(0.2)
                said = "".join(what for _, who, what in await lines(page) if who == "Tiny")
        await page.screenshot(path=tmp_path / "tiny.png", full_page=True)
        await page.click("#hangup")
        await reach(page, "ended")
    finally:
        await server.stop()
