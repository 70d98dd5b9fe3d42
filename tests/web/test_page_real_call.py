"""The page against the real server: the voice comes back, and the text with it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.web.page_driver import START, STATE, expect_let_go, go_live, lines, open_page, reach
from tests.web.real_server import RealServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

RECORD_S = 6
STEP_MS = 40
STRETCH_S = 3
TRIES = 4
ALIKE = 0.8

_RECORD = """async ([seconds, stepMs]) => {
  const context = new window.RealAudioContext();
  const [peer] = window.peers;
  const taps = [peer.getSenders()[0].track, peer.getReceivers()[0].track].map((track) => {
    const analyser = new AnalyserNode(context, { fftSize: 2048 });
    context.createMediaStreamSource(new MediaStream([track])).connect(analyser);
    return analyser;
  });
  const samples = new Float32Array(2048);
  const levels = [[], []];
  const start = performance.now();
  for (let step = 0; step < (seconds * 1000) / stepMs; step += 1) {
    const due = start + step * stepMs;
    await new Promise((resolve) => setTimeout(resolve, due - performance.now()));
    taps.forEach((tap, side) => {
      tap.getFloatTimeDomainData(samples);
      levels[side].push(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
    });
  }
  await context.close();
  return levels;
}"""
"""Mean square of the microphone and of the agent's sound, step by step."""


@pytest_asyncio.fixture(loop_scope="session")
async def real_server() -> AsyncIterator[RealServer]:
    started = await RealServer.start("--sessions", "1")
    yield started
    await started.stop()


async def test_the_voice_comes_back_and_so_does_the_text(
    page: Page, real_server: RealServer
) -> None:
    await go_live(page, real_server.url)
    likeness = 0.0
    for _ in range(TRIES):
        sent, heard = (
            np.sqrt(np.array(levels))
            for levels in await page.evaluate(_RECORD, [RECORD_S, STEP_MS])
        )
        likeness, delay_ms = best_match(sent, heard)
        if likeness > ALIKE:
            break
    assert likeness > ALIKE, (likeness, delay_ms)
    assert 40 <= delay_ms <= 800

    await expect(page.locator("#log")).to_contain_text(re.compile(r"you spoke for \d\.\d s"))
    spoken = await lines(page)
    assert any(who == "You" and what.startswith("spoke for") for _, who, what in spoken)
    await expect(page.locator("#meter-agent")).not_to_have_attribute("aria-valuenow", "-60")
    await expect(page.locator("#fact-rtt")).to_have_text(re.compile(r"^\d+ ms$"))
    await expect(page.locator("#fact-path")).to_have_text("direct over UDP")


def best_match(sent: np.ndarray, heard: np.ndarray) -> tuple[float, int]:
    """The best correlation of two level curves over a stretch, and the delay in ms there: what a
    busy machine leaves out shifts the delay within a recording, but not within every stretch."""
    most, stretch = 1_000 // STEP_MS, STRETCH_S * 1_000 // STEP_MS
    found = []
    for begin in range(0, len(sent) - stretch - most + 1, stretch // 3):
        for lag in range(most):
            ours = sent[begin : begin + stretch]
            theirs = heard[begin + lag : begin + lag + stretch]
            if ours.std() and theirs.std():
                found.append((float(np.corrcoef(ours, theirs)[0, 1]), lag * STEP_MS))
    return max(found, default=(0.0, 0))


async def test_a_second_caller_is_told_that_the_server_is_full(
    page: Page, real_server: RealServer
) -> None:
    await go_live(page, real_server.url)
    second = await page.context.new_page()
    await open_page(second, real_server.url)
    await second.click(START)
    await expect(second.locator("#problem")).to_contain_text("All lines are busy")
    await expect(second.locator(START)).to_contain_text("Try again in")
    await expect_let_go(second)
    await reach(page, "live")

    await page.click("#hangup")
    await reach(page, "ended")
    await second.click(START)
    await reach(second, "live")


async def test_a_server_that_stops_tells_the_caller_why(
    page: Page, real_server: RealServer
) -> None:
    await go_live(page, real_server.url)
    await real_server.stop()
    await reach(page, "ended")
    await expect(page.locator(STATE)).to_have_text("Call ended. The server is being stopped.")
    await expect_let_go(page)


async def test_a_server_that_dies_is_noticed(page: Page, real_server: RealServer) -> None:
    await go_live(page, real_server.url)
    real_server.process.kill()
    await reach(page, "interrupted", 15)
    await reach(page, "ended", 20)
    await expect(page.locator(STATE)).to_contain_text("The connection was lost")
    await expect_let_go(page)


async def test_the_latency_test_hears_its_chirps_come_back(
    page: Page, real_server: RealServer
) -> None:
    await go_live(page, real_server.url)
    await page.click("#quality summary")
    result = page.locator("#latency-result")
    for _ in range(TRIES):
        await expect(page.locator("#latency-test")).to_be_enabled()
        await page.click("#latency-test")
        await expect(result).to_contain_text("three short chirps")
        await expect(result).not_to_contain_text("three short chirps", timeout=20_000)
        found = re.match(r"(\d+) ms, measured", await result.text_content() or "")
        if found:
            break
    assert found
    assert 80 <= int(found[1]) <= 1_500
