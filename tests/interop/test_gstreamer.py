"""GStreamer's webrtcbin as a WHIP client, both ways, against the real server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from asyncio.subprocess import PIPE
from pathlib import Path

import numpy as np
import pytest

from tests.client.audio import load_wav
from tests.real_server import serving

SYSTEM_PYTHON = "/usr/bin/python3"
"""Debian's: its `gi` cannot be installed into a virtual environment of another version."""
SCRIPT = Path(__file__).parent / "gst_whip.py"
NEEDS = (
    'import gi; gi.require_version("GstWebRTC", "1.0"); gi.require_version("Nice", "0.1");'
    "from gi.repository import GstWebRTC, Nice"
)
TONE_HZ = 440
SECONDS = 6.0


@pytest.fixture(scope="module")
def gstreamer() -> None:
    """Skipped without GStreamer; in CI that is a failure."""
    found = (
        shutil.which(SYSTEM_PYTHON)
        and not subprocess.run([SYSTEM_PYTHON, "-c", NEEDS], capture_output=True).returncode
    )
    if not found:
        reason = "GStreamer's webrtcbin is not installed (see tests/system-packages.txt)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.mark.usefixtures("gstreamer")
async def test_a_whip_call_both_ways(tmp_path: Path) -> None:
    output = tmp_path / "heard.wav"
    async with serving("--agent", "echo") as server:
        process = await asyncio.create_subprocess_exec(
            *(SYSTEM_PYTHON, str(SCRIPT), f"{server.url}/whip", str(output), str(SECONDS)),
            stdout=PIPE,
            stderr=PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        result = json.loads(out.splitlines()[-1])
        assert result["status"] == 201, result
        assert result["connected"] and result["delete"] == 200
        heard = load_wav(output)
        middle = heard[len(heard) // 3 :]
        assert len(heard) > 2 * 24_000
        assert np.argmax(np.abs(np.fft.rfft(middle))) * 24_000 / len(middle) == pytest.approx(
            TONE_HZ, abs=3
        )
        assert await server.free_slots() == 4
