"""A long call on the page, and whether the page grows by it: `python -m tests.web.soak 30`."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.async_api import CDPSession, async_playwright

from tests.holdings import Holdings
from tests.web.page_driver import go_live
from tests.web.real_server import RealServer
from tests.web.speech import browser_arguments, write_microphone

EVERY_S = 60
SETTLE_S = 90
"""Until then the page fills what it keeps in bounded number."""
HEAP_PER_HOUR_KB = 2_000
"""What the script of a talkative hour may add."""
SERVER_PER_HOUR_MB = 10


async def _measure(session: CDPSession) -> dict[str, float]:
    await session.send("HeapProfiler.collectGarbage")
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return {each["name"]: each["value"] for each in metrics}


async def main(minutes: float) -> int:
    server = await RealServer.start("--sessions", "1")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            microphone = write_microphone(Path(scratch) / "speech48.wav")
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(
                    executable_path=shutil.which("chromium"), args=browser_arguments(microphone)
                )
                page = await browser.new_page()
                session = await page.context.new_cdp_session(page)
                await session.send("Performance.enable")
                await go_live(page, server.url)
                await page.click("#quality summary")
                await asyncio.sleep(SETTLE_S)
                heaps: list[float] = []
                residents: list[float] = []
                rounds = max(2, int(minutes * 60 / EVERY_S))
                for at in range(rounds):
                    found = await _measure(session)
                    heaps.append(found["JSHeapUsedSize"] / 1e3)
                    rows = await page.locator("#log li").count()
                    holds = Holdings.of(server.process.pid)
                    residents.append(holds.resident_mb)
                    sys.stdout.write(
                        f"{at * EVERY_S:5d} s heap {heaps[-1]:7.0f} kB  nodes {found['Nodes']:6.0f}"
                        f"  listeners {found['JSEventListeners']:5.0f}  lines {rows}"
                        f"  server {holds.resident_mb:6.1f} MB  descriptors {holds.descriptors}\n"
                    )
                    sys.stdout.flush()
                    await asyncio.sleep(EVERY_S)
                state = await page.locator("body").get_attribute("data-state")
                await browser.close()
    finally:
        await server.stop()
    hours = (len(heaps) - 1) * EVERY_S / 3_600
    per_hour = (heaps[-1] - heaps[0]) / hours
    server_per_hour = (residents[-1] - residents[0]) / hours
    sys.stdout.write(
        f"state {state}; heap {per_hour:+.0f} kB per hour;"
        f" server {server_per_hour:+.1f} MB per hour\n"
    )
    within = per_hour < HEAP_PER_HOUR_KB and server_per_hour < SERVER_PER_HOUR_MB
    return 0 if state == "live" and within else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(float(sys.argv[1]))))
