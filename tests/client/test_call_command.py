"""The `call` command as a person runs it: what it prints and how it exits."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from aiohttp import web

from tests.client.reflector import Reflector, serving


async def run(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rtc_agent",
        "call",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def arguments(url: str, speech: Path, trailing_s: float = 1.0) -> list[str]:
    files = ["--input", str(speech), "--output", str(speech.with_name("out.wav"))]
    return [url, *files, "--trailing", str(trailing_s), "--ice-host", "127.0.0.1", "--json"]


async def test_a_good_call_prints_one_json_object_last(speech_wav: Path) -> None:
    async with serving(Reflector()) as url:
        code, out, err = await run(*arguments(url, speech_wav))
    assert code == 0, err
    report = json.loads(out.splitlines()[-1])
    assert {"connect_ms", "ready_ms", "duration_s", "frames", "lost_packets", "text"} <= set(report)
    assert (report["duration_s"], report["left_out_s"]) == (2.8, 0) and not err


async def test_a_reply_that_the_recording_cuts_is_told_with_the_way_out(speech_wav: Path) -> None:
    async with serving(Reflector()) as url:
        code, out, err = await run(*arguments(url, speech_wav, 0.0))
    assert code == 0 and json.loads(out.splitlines()[-1])["reply_cut"]
    assert "still speaking" in err and "--trailing 10 " in err


async def test_what_the_agent_did_not_hear_is_told(speech_wav: Path) -> None:
    """And blanks around its words are none of them."""
    overload = {"type": "notice", "code": "overload", "message": "Slow.", "frames": 2}
    say = [{"type": "text", "frame": 1, "delta": " Hello."}, overload, overload]
    async with serving(Reflector(say_during=say)) as url:
        code, out, err = await run(*arguments(url, speech_wav))
    report = json.loads(out.splitlines()[-1])
    assert code == 0 and report["complete"]
    assert (report["left_out_s"], report["text"]) == (0.32, "Hello.")
    assert "did not hear 0.32 s" in err and len(err.splitlines()) == 1


async def test_a_call_that_breaks_off_exits_1(speech_wav: Path) -> None:
    async with serving(Reflector(end_after_s=0.5)) as url:
        code, out, err = await run(*arguments(url, speech_wav))
    assert code == 1
    assert json.loads(out.splitlines()[-1])["ended"] == "call_limit"
    assert "call_limit" in err


async def test_refusals_exit_2_with_one_line(speech_wav: Path) -> None:
    refusal = web.json_response({"error": {"message": "No voice X; there are A, B."}}, status=400)
    async with serving(Reflector(refuse=lambda: refusal)) as url:
        code, out, err = await run(*arguments(url, speech_wav), "--voice", "X")
    assert code == 2
    assert "there are A, B" in json.loads(out)["error"]["message"]
    assert "there are A, B" in err and len(err.splitlines()) == 1


async def test_bad_usage_exits_2(speech_wav: Path) -> None:
    code, _, err = await run("http://127.0.0.1:9")
    assert code == 2 and "--input" in err
