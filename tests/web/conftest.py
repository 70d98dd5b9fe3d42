"""Chromium with a microphone that speaks from a file, and a server for the page to call."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import aioice.ice
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from tests.web.fake_server import FakeServer
from tests.web.speech import browser_arguments, write_microphone


def chromium_path() -> str:
    """Where Chromium is; without it the test is skipped, and fails in CI."""
    path = shutil.which("chromium")
    if path is None:
        reason = "Chromium is not installed (Debian package: chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def microphone_wav(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test sentence, for Chromium's fake microphone."""
    return write_microphone(tmp_path_factory.mktemp("microphone") / "speech48.wav")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(microphone_wav: Path) -> AsyncIterator[Browser]:
    executable = chromium_path()
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=executable,
            args=browser_arguments(microphone_wav),
        )
        yield started
        await started.close()


_WATCH = """
window.tracks = [];
window.contexts = [];
if (navigator.mediaDevices) {
  const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (constraints) => {
    window.constraints = constraints;
    const stream = await open(constraints);
    window.tracks.push(...stream.getTracks());
    return stream;
  };
}
const watch = (name, made) => {
  const Real = window[name];
  window[`Real${name}`] = Real;
  window[name] = class extends Real {
    constructor(...options) { super(...options); made.push(this); }
  };
};
window.peers = [];
watch("AudioContext", window.contexts);
watch("RTCPeerConnection", window.peers);
"""
"""Lets a test see whether every microphone, audio context and connection was let go."""


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    made = await browser.new_context(viewport={"width": 1280, "height": 800})
    await made.add_init_script(_WATCH)
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    """A page; every test also asks that it throws nothing and keeps to its security policy."""
    made = await context.new_page()
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on(
        "console",
        lambda line: faults.append(line.text) if "Content Security Policy" in line.text else None,
    )
    yield made
    assert faults == []


@pytest_asyncio.fixture(loop_scope="session")
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeServer]:
    """The fake server, its media on loopback alone."""
    monkeypatch.setattr(aioice.ice, "get_host_addresses", lambda *_, **__: ["127.0.0.1"])
    made = FakeServer()
    await made.start()
    yield made
    await made.aclose()
