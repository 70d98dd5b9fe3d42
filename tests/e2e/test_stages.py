"""Real calls to a server whose stages are two processes, one of which is killed in a call."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.client.audio import SPEECH, load_wav, save_wav
from tests.e2e.test_calls import call
from tests.process_tree import command_line, family
from tests.real_server import RealServer, serving

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

DEPLOY = "codec_chunk_frames = {chunk}\n[code2wav]\nprocess = true\n"
RATE = 24_000


def code2wav_of(server: RealServer) -> list[int]:
    """Process ids of the code2wav processes below a server."""
    name = "rtc_agent.processes.code2wav"
    return [pid for pid in family(server.process.pid) if name in command_line(pid)]


@pytest.mark.parametrize(("chunk", "workers"), [(1, 0), (3, 1)])
async def test_a_call_is_heard_and_outlives_its_code2wav(
    tmp_path: Path, chunk: int, workers: int
) -> None:
    deploy, long = tmp_path / "stages.toml", tmp_path / "in.wav"
    deploy.write_text(DEPLOY.format(chunk=chunk))
    save_wav(long, np.tile(load_wav(SPEECH), 6))
    options = ("--agent", "tiny", "--sessions", "2", "--media-workers", str(workers))
    async with serving(*options, "--stages", str(deploy)) as server:
        (killed,) = code2wav_of(server)
        calls = [
            asyncio.create_task(
                call(
                    *(server, long, tmp_path / f"out{n}.wav"),
                    *("--transcript", str(tmp_path / f"t{n}.jsonl")),
                )
            )
            for n in range(2)
        ]
        while await server.free_slots():
            await asyncio.sleep(0.2)
        # Connected within a moment of that, and heard for some seconds.
        await asyncio.sleep(6)
        os.kill(killed, signal.SIGKILL)
        for n, report in enumerate(await asyncio.gather(*calls)):
            assert report["exit"] == 0 and report["complete"], report
            heard = load_wav(tmp_path / f"out{n}.wav")
            loud = np.sqrt(
                np.mean(np.square(heard[: len(heard) // RATE * RATE]).reshape(-1, RATE), 1)
            )
            # Quiet for a while, and heard before and after.
            assert (loud[1:3] > 1e-3).all() and (loud[-3:] > 1e-3).all()
            lines = (tmp_path / f"t{n}.jsonl").read_text().splitlines()
            notices = [e["code"] for e in map(json.loads, lines) if e["type"] == "notice"]
            assert "voice_lost" in notices and "voice_back" in notices
        (following,) = code2wav_of(server)
        assert following != killed
    assert not code2wav_of(server)
