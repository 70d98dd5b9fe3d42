"""Pictures of a call to the demo agent, made anew: `python -m tests.web.pictures docs`."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
from playwright.async_api import Browser, async_playwright
from scipy.signal import resample_poly

from rtc_agent.engine.stepper import Pcm
from tests.client.audio import save_wav
from tests.demo.questions import questions
from tests.web.page_driver import go_live
from tests.web.real_server import RealServer
from tests.web.speech import browser_arguments

ColorScheme = Literal["light", "dark"]
TALK_S = 16
PAUSE_S = 0.2
PICTURES: dict[str, tuple[int, int, ColorScheme]] = {
    "page.png": (1280, 1000, "light"),
    "page-dark.png": (1280, 1000, "dark"),
    "page-phone.png": (390, 780, "light"),
}

_HEADSET = """
const list = navigator.mediaDevices.enumerateDevices.bind(navigator.mediaDevices);
navigator.mediaDevices.enumerateDevices = async () => (await list()).map(({ kind, deviceId }) => ({
  kind, deviceId, groupId: "one", label: deviceId === "default" ? "Headset" : "Built-in",
}));
"""
"""Names that devices have, in place of those of the browser's fakes."""


async def main(folder: Path) -> None:
    server = await RealServer.start("--agent", "demo", "--sessions", "1")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            microphone = save_wav(Path(scratch) / "questions.wav", _questions(), 48_000)
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(
                    executable_path=shutil.which("chromium"), args=browser_arguments(microphone)
                )
                for name, size in PICTURES.items():
                    await _take(browser, server.url, folder / name, *size)
                await browser.close()
    finally:
        await server.stop()


def _questions() -> Pcm:
    """A caller of the demo agent at 48 kHz: the greeting, then a question every few seconds."""
    first, *others = questions()[:3]
    tracks = [first.asked(), *(question.asked(PAUSE_S) for question in others)]
    return np.asarray(resample_poly(np.concatenate(tracks).reshape(-1), 2, 1), np.float32)


async def _take(
    browser: Browser, url: str, path: Path, width: int, height: int, scheme: ColorScheme
) -> None:
    page = await browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        device_scale_factor=2 if width < 500 else 1.5,
        has_touch=width < 500,
    )
    await page.add_init_script(_HEADSET)
    await go_live(page, url)
    if width > 500:
        await page.click("#quality summary")
    await page.mouse.move(5, 5)
    await asyncio.sleep(TALK_S)
    await page.screenshot(path=path)
    await page.close()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(target))
