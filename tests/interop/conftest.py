"""Clients that others make, bundled into a page of another origin, in Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser, Page

from tests.interop.driver import Client
from tests.real_server import RealServer, serving
from tests.web.conftest import browser, microphone_wav

__all__ = ["browser", "microphone_wav"]

HERE = Path(__file__).parent
PACKAGES = HERE / "node_modules"
INSTALL_TIMEOUT_S = 300
LISTEN_TOKEN = "a token for listening in"


def unavailable(reason: str) -> None:
    """Without the clients there is nothing to try: named here, a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _installed() -> bool:
    """Whether the packages are those of the lock file as it is now."""
    done = PACKAGES / ".package-lock.json"
    lock = HERE / "package-lock.json"
    return done.is_file() and done.stat().st_mtime >= lock.stat().st_mtime


def install_packages() -> None:
    """Have the packages of the lock file in `PACKAGES`."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        unavailable("npm is not installed (Debian packages: nodejs, npm)")
    if not _installed():
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        installed = subprocess.run(
            command, cwd=HERE, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S
        )
        if installed.returncode:
            unavailable(f"npm ci failed: {installed.stderr[-500:]}")


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all clients in one script, of the versions in the lock file, and once more with
    pipecat's of RTVI 1."""
    install_packages()
    folder = tmp_path_factory.mktemp("clients")
    _bundle(folder / "clients.js")
    _bundle(
        folder / "clients-rtvi1.js",
        "--alias:@pipecat-ai/client-js=pipecat-client-rtvi1",
        "--alias:@pipecat-ai/small-webrtc-transport=pipecat-transport-rtvi1",
    )
    return folder


def _bundle(script: Path, *options: str) -> None:
    subprocess.run(
        [
            str(PACKAGES / ".bin" / "esbuild"),
            *("clients/index.js", "--bundle", "--format=iife", "--log-level=error"),
            f"--outfile={script}",
            *options,
        ],
        cwd=HERE,
        check=True,
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def application(bundle: Path) -> AsyncIterator[str]:
    """An application's own site: another origin than the server's."""

    async def page(request: web.Request) -> web.Response:
        script = f"clients{request.match_info['kind']}.js"
        text = f'<!doctype html><meta charset="utf-8"><script src="/{script}"></script>'
        return web.Response(text=text, content_type="text/html")

    app = web.Application()
    app.router.add_get("/page{kind:(-rtvi1)?}", page)
    app.router.add_static("/opus-recorder", PACKAGES / "opus-recorder" / "dist")
    app.router.add_static("/", bundle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(
    application: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RealServer]:
    """The real server with the echo agent, which lets the application's origin in."""
    settings = tmp_path_factory.mktemp("settings") / "rtc-agent.toml"
    settings.write_text(f'allowed_origins = ["{application}"]\nlisten_token = "{LISTEN_TOKEN}"\n')
    async with serving("--agent", "echo", "--config", str(settings)) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, application: str) -> AsyncIterator[Page]:
    context = await browser.new_context(permissions=["microphone"])
    made = await context.new_page()
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))
    await made.goto(f"{application}/page")
    yield made
    await context.close()
    assert faults == []


@pytest.fixture
def client(page: Page, server: RealServer) -> Client:
    return Client(page, server)
