"""Every state of the page, to look at and to check: `python -m tests.web.states FOLDER`."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import aioice.ice
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.web.fake_server import FakeServer, refusal
from tests.web.page_driver import START, go_live, open_page, reach
from tests.web.speech import browser_arguments, write_microphone

ColorScheme = Literal["light", "dark"]
WIDTHS = {"phone": (360, 740), "desktop": (1280, 800)}
SCHEMES: tuple[ColorScheme, ...] = ("light", "dark")
PERSONA_AGENT = {
    "agent": "personaplex",
    "description": "A voice agent that listens while it talks.",
    "voices": ["NATF0", "NATF1", "NATM0"],
    "default_voice": "NATM0",
    "voice_samples": ["NATM0"],
    "takes_persona": True,
    "persona_max_chars": 600,
    "capabilities": {"recording": True},
    "recording_days": 30,
}
STATS = {
    "packets_received": 500,
    "packets_lost": 20,
    "concealed_ms": 100.0,
    "dropped_ms": 0.0,
    "packets_sent": 500,
    "underruns": 0,
    "jitter_ms": 3.2,
    "receive_buffer_ms": 41.0,
    "playout_buffer_ms": 38.0,
}


async def _ready(page: Page, server: FakeServer) -> None:
    await open_page(page, server.url)


async def _persona(page: Page, server: FakeServer) -> None:
    server.info |= PERSONA_AGENT
    await open_page(page, server.url)
    await page.get_by_role("button", name="Museum guide").click()


async def _connecting(page: Page, server: FakeServer) -> None:
    server.ready = False
    await open_page(page, server.url)
    await page.click(START)
    await reach(page, "opening")


def _talk(server: FakeServer) -> None:
    server.send("speech", frame=20, who="caller", state="started", duration_ms=0)
    server.send("speech", frame=50, who="caller", state="stopped", duration_ms=2_400)
    server.send("text", frame=52, delta="Good morning, and welcome. ")
    server.send("text", frame=60, delta="What would you like to hear about?\n")
    server.send("notice", frame=70, code="overload", message="The server is too slow.")
    server.send("speech", frame=75, who="caller", state="started", duration_ms=0)


async def _live(page: Page, server: FakeServer) -> None:
    """With every panel open, a warning, and recordings in the making on both sides."""
    server.info |= PERSONA_AGENT
    await open_page(page, server.url)
    await page.get_by_role("button", name="Museum guide").click()
    await page.get_by_label("The server may record").check()
    await page.click(START)
    await reach(page, "live")
    server.send("notice", code="recording", message="This call is recorded, as you agreed.")
    _talk(server)
    await page.click("#quality summary")
    for step in range(6):
        grown = {name: value * (step + 1) for name, value in STATS.items() if "buffer" not in name}
        server.send("stats", frame=25 * (step + 4), **(STATS | grown))
        await asyncio.sleep(1)
    await expect(page.locator("#advice")).to_be_visible()
    await page.click("#record")
    await page.click("#latency-test")


async def _muted(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await page.keyboard.press("m")


async def _interrupted(page: Page, server: FakeServer) -> None:
    await page.clock.install()
    await go_live(page, server.url)
    _talk(server)
    server.respond = refusal(503, "server_draining", "Stopping.")
    server.answers_pings = False
    await page.clock.run_for(8_000)
    await reach(page, "interrupted")


async def _ended(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    _talk(server)
    await asyncio.sleep(2)
    server.send("ended", frame=100, reason="idle", message="Nobody said anything for 5 minutes.")
    await reach(page, "ended")


async def _full(page: Page, server: FakeServer) -> None:
    server.info |= {"slots": {"total": 4, "free": 0}}
    server.respond = refusal(503, "server_full", "All slots are taken.", **{"Retry-After": "30"})
    await open_page(page, server.url)
    await page.click(START)
    await reach(page, "failed")


async def _refused(page: Page, server: FakeServer) -> None:
    await page.add_init_script(
        """navigator.mediaDevices.getUserMedia =
            async () => { throw new DOMException("not this time", "NotAllowedError"); };"""
    )
    await open_page(page, server.url)
    await page.click(START)
    await reach(page, "failed")


async def _unreachable(page: Page, server: FakeServer) -> None:
    await page.route("**/v1/info", lambda route: route.abort())
    await open_page(page, server.url, "unreachable")


STATES: dict[str, Callable[[Page, FakeServer], Awaitable[None]]] = {
    "ready": _ready,
    "persona": _persona,
    "connecting": _connecting,
    "live": _live,
    "muted": _muted,
    "interrupted": _interrupted,
    "ended": _ended,
    "full": _full,
    "refused": _refused,
    "unreachable": _unreachable,
}
"""Name → how to come to it on a new page."""


async def _take(browser: Browser, folder: Path, name: str, width: str, scheme: ColorScheme) -> None:
    server = FakeServer()
    await server.start()
    size = WIDTHS[width]
    page = await browser.new_page(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
    )
    try:
        await STATES[name](page, server)
        await page.mouse.move(5, 5)
        await page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
    finally:
        await page.close()
        await server.aclose()


async def main(folder: Path, names: list[str]) -> None:
    aioice.ice.get_host_addresses = lambda *_, **__: ["127.0.0.1"]
    with tempfile.TemporaryDirectory() as scratch:
        microphone = write_microphone(Path(scratch) / "speech48.wav")
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=browser_arguments(microphone)
            )
            for name in names or STATES:
                for width in WIDTHS:
                    for scheme in SCHEMES:
                        await _take(browser, folder, name, width, scheme)
            await browser.close()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(target, sys.argv[2:]))
