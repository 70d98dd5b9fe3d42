"""The page in Firefox, against the real server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import HERE, install_packages, unavailable
from tests.web.real_server import RealServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LIMIT_S = 90


async def test_a_call_in_firefox(tmp_path: Path) -> None:
    firefox = shutil.which("firefox-esr") or shutil.which("firefox")
    if firefox is None:
        unavailable("Firefox is not installed (Debian package: firefox-esr)")
    install_packages()
    server = await RealServer.start("--sessions", "1")
    try:
        told = await _call(str(firefox), server.url, tmp_path)
    finally:
        await server.stop()
    assert told["heard"]["packets"] > 50
    assert told["path"] == "direct over UDP"
    figures = dict(told["figures"])
    assert all(figures[name].endswith(" ms") for name in ("Mouth to ear", "Browser buffer"))
    assert told["muted"] == "Live, you are muted"
    assert told["ended"] == "Call ended. You hung up."
    assert told["faults"] == []


async def _call(firefox: str, url: str, home: Path) -> dict[str, Any]:
    """Have the script make a call; what it saw."""
    script = HERE / "clients" / "firefox.mjs"
    process = await asyncio.create_subprocess_exec(
        *("node", str(script), firefox, url),
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, "HOME": str(home)},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors.decode()[-2_000:]
    return dict(json.loads(out))
