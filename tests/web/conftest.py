"""Chromium with a microphone that speaks from a file, and a server for the page to call."""

from __future__ import annotations

import os
import shutil
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import aioice.ice
import numpy as np
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright
from scipy.signal import resample_poly

from tests.web.fake_server import FakeServer
from tests.web.page_driver import INSECURE_HOST

SPEECH = Path(__file__).parents[1] / "data" / "speech.wav"


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
    """The test sentence at 48 kHz, which Chromium's fake microphone wants; it loops."""
    with wave.open(str(SPEECH)) as source:
        assert (source.getframerate(), source.getnchannels()) == (24_000, 1)
        samples = np.frombuffer(source.readframes(source.getnframes()), np.int16)
    doubled = np.clip(resample_poly(samples.astype(np.float64), 2, 1), -32_768, 32_767)
    path = tmp_path_factory.mktemp("microphone") / "speech48.wav"
    with wave.open(str(path), "wb") as target:
        target.setnchannels(1)
        target.setsampwidth(2)
        target.setframerate(48_000)
        target.writeframes(doubled.astype(np.int16).tobytes())
    return path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(microphone_wav: Path) -> AsyncIterator[Browser]:
    executable = chromium_path()
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=executable,
            args=[
                "--no-sandbox",
                "--use-fake-ui-for-media-stream",
                "--use-fake-device-for-media-stream",
                f"--use-file-for-fake-audio-capture={microphone_wav}",
                "--allow-loopback-in-peer-connection",
                f"--host-resolver-rules=MAP {INSECURE_HOST} 127.0.0.1",
            ],
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
