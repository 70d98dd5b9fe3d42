"""Whole calls: the real server, the real command line, real packets on loopback."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.audio import SPEECH, best_match, load_wav, save_wav
from tests.real_server import RealServer, command, serving

FRAME_SAMPLES = 1_920
TRIES = 6
"""Calls are made in real time; a stall of the test machine itself costs a try, not the test. Each
try waits longer for what else runs on the machine than the one before."""


async def call(
    server: RealServer | str, source: Path, output: Path, *options: str
) -> dict[str, Any]:
    """`rtc-agent call --json` to a server or an address; its report, with the exit status."""
    url = server if isinstance(server, str) else server.url
    process = await command(
        *("call", url, "--input", str(source), "--output", str(output)),
        *("--ice-host", "127.0.0.1", "--json", *options),
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await process.communicate()
    last = out.decode().splitlines()[-1] if out.strip() else "{}"
    return {**json.loads(last), "exit": process.returncode, "stderr": err.decode()}


async def test_the_agents_recording_holds_the_speech_at_one_steady_delay(tmp_path: Path) -> None:
    output, transcript = tmp_path / "out.wav", tmp_path / "t.jsonl"
    async with serving("--agent", "echo") as server:
        for tried in range(TRIES):
            await asyncio.sleep(tried)
            report = await call(server, SPEECH, output, "--transcript", str(transcript))
            likeness, _ = best_match(load_wav(SPEECH), load_wav(output))
            if likeness > 0.9 and report["longest_gap_ms"] < 20:
                break
        assert report["exit"] == 0, report
        assert likeness > 0.9, report
        assert report["longest_gap_ms"] < 20
        assert report["lost_packets"] == 0
        assert abs(len(load_wav(output)) - len(load_wav(SPEECH))) <= FRAME_SAMPLES
        assert report["frames"] == round(len(load_wav(SPEECH)) / FRAME_SAMPLES)
        assert "you spoke for 3.8 s" in report["text"]
        events = [json.loads(line) for line in transcript.read_text().splitlines()]
        frames = [event["frame"] for event in events]
        assert frames == sorted(frames)
        assert [event["seq"] for event in events] == list(range(len(events)))
        assert events[0]["type"] == "ready" and events[-1]["type"] == "ended"
        assert await server.free_slots() == (await server.info())["slots"]["total"]


async def test_four_calls_at_once_each_hear_their_own_and_the_fifth_is_told_at_once(
    tmp_path: Path,
) -> None:
    seconds = np.arange(24_000 * 4) / 24_000
    tones = [400, 700, 1_100, 1_700]
    sources = [
        save_wav(tmp_path / f"{hz}.wav", (0.3 * np.sin(2 * np.pi * hz * seconds)).astype("f4"))
        for hz in tones
    ]
    outputs = [tmp_path / f"out-{hz}.wav" for hz in tones]
    async with serving("--agent", "echo", "--sessions", "4") as server:
        calls = asyncio.gather(*(call(server, s, o) for s, o in zip(sources, outputs, strict=True)))
        while await server.free_slots():
            await asyncio.sleep(0.1)
        refused = await call(server, SPEECH, tmp_path / "fifth.wav")
        assert refused["exit"] == 2
        assert "full" in refused["stderr"] and "Traceback" not in refused["stderr"]
        reports = await calls
        assert [report["exit"] for report in reports] == [0] * 4, reports
    for hz, output in zip(tones, outputs, strict=True):
        spectrum = np.abs(np.fft.rfft(load_wav(output)[24_000:72_000]))
        power = {tone: spectrum[tone * 2 - 4 : tone * 2 + 5].max() for tone in tones}
        assert max(power, key=lambda tone: power[tone]) == hz
        assert all(power[hz] > 30 * power[tone] for tone in tones if tone != hz), power


async def test_a_caller_killed_in_mid_call_frees_its_slot_within_ten_seconds(
    tmp_path: Path,
) -> None:
    source = save_wav(tmp_path / "long.wav", np.zeros(24_000 * 60, np.float32))
    async with serving("--agent", "echo", "--sessions", "1") as server:
        caller = await command(
            *("call", server.url, "--input", str(source), "--output", str(tmp_path / "o.wav")),
            *("--ice-host", "127.0.0.1"),
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
        async with asyncio.timeout(30):
            while (await server.info())["engine"]["ticks"] < 10:
                await asyncio.sleep(0.1)
        caller.kill()
        await caller.wait()
        async with asyncio.timeout(10):
            while not await server.free_slots():
                await asyncio.sleep(0.1)


async def test_a_server_that_is_stopped_tells_its_callers_and_is_gone_in_time(
    tmp_path: Path,
) -> None:
    source = save_wav(tmp_path / "long.wav", np.zeros(24_000 * 60, np.float32))
    server = await RealServer.start("--agent", "echo", "--sessions", "2")
    calls = [
        asyncio.create_task(call(server, source, tmp_path / f"{number}.wav")) for number in range(2)
    ]
    async with asyncio.timeout(30):
        while (await server.info())["engine"]["ticks"] < 10:
            await asyncio.sleep(0.1)
    assert await server.stop() < 10
    for report in await asyncio.gather(*calls):
        assert report["ended"] == "server_stopping", report
        assert report["exit"] == 1
    assert "Traceback" not in server.log
    assert server.process.returncode == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--agent", "nobody"], "agent"),
        (["--port", "99999"], "port"),
        (["--config", "/does/not/exist.toml"], "does not exist"),
        (["--sessions", "0"], "sessions"),
    ],
)
async def test_settings_that_do_not_fit_are_one_line_and_exit_status_two(
    options: list[str], says: str
) -> None:
    process = await command("serve", *options, stdout=PIPE, stderr=PIPE)
    out, err = await process.communicate()
    assert process.returncode == 2
    assert says in err.decode() and "Traceback" not in err.decode()
    assert not out


async def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    async with serving("--agent", "echo") as server:
        port = server.url.rsplit(":", 1)[1]
        process = await command("serve", "--port", port, stdout=PIPE, stderr=PIPE)
        _, err = await process.communicate()
        assert process.returncode == 2
        assert "Cannot listen" in err.decode() and "Traceback" not in err.decode()
