"""The load on a server of its own, and what is left when it is ended."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from types import ModuleType

import pytest

from tests.process_tree import command_line, family, is_alive

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "many_calls.py"
WAIT_S = 60.0


@pytest.fixture(scope="module")
def many_calls() -> ModuleType:
    spec = importlib.util.spec_from_file_location("many_calls", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_report_of_a_load_with_failed_calls_is_kept(many_calls: ModuleType) -> None:
    line = json.dumps({"calls": 64, "failed_calls": 3})
    assert many_calls.result(f"{line}\n", 1) == {"calls": 64, "failed_calls": 3}
    assert many_calls.result(f"{line}\nfarewell\n", 1)["failed_calls"] == 3
    assert many_calls.result("", -9) == {"ok": False, "load_exit_status": -9}


async def until(process: Process, words: str) -> list[int]:
    """All processes that there are once the script has said so."""
    assert process.stderr is not None
    async with asyncio.timeout(WAIT_S):
        while line := (await process.stderr.readline()).decode():
            if line.startswith("many_calls: ") and words in line:
                return family(process.pid)
    raise AssertionError(f"it ended without saying {words!r}")


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)]
)
async def test_nothing_stays_when_it_is_ended(number: signal.Signals) -> None:
    words = ("--calls", "1", "--seconds", "60", "--", "--agent", "echo", "--media-workers", "1")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SCRIPT), *words, stdout=PIPE, stderr=PIPE, cwd=SCRIPT.parents[1]
    )
    assert process.stdout is not None
    members = [process.pid]
    try:
        members = await until(process, "calls up: 1")
        # Itself, the server with its engine and worker, the load with its pool.
        assert len(members) >= 6, [command_line(member) for member in members]
        process.send_signal(number)
        async with asyncio.timeout(WAIT_S):
            output = await process.stdout.read()
            await process.wait()
            while any(map(is_alive, members)):
                await asyncio.sleep(0.05)
    finally:
        for member in filter(is_alive, members):
            os.kill(member, signal.SIGKILL)
    if number is signal.SIGTERM:
        report = json.loads(output)
        assert report["ended_by"] == "SIGTERM" and report["server"]["ticks"] > 0
        assert process.returncode == 128 + signal.SIGTERM
