"""`rtc-agent serve` in a process of its own, for tests that call it as its users do."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).parent.parent
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 10


async def command(*arguments: str, **options: Any) -> Process:
    """`rtc-agent` with these arguments."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rtc_agent", *arguments, cwd=ROOT, **options
    )


class RealServer:
    """A running server; `log` is what it wrote, once stopped."""

    def __init__(self, process: Process, url: str, lines: list[str]) -> None:
        self.process = process
        self.url = url
        self._lines = lines
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, *options: str) -> RealServer:
        process = await command(
            *("serve", "--port", "0", "--ice-host", "127.0.0.1", *options),
            stdout=PIPE,
            stderr=STDOUT,
        )
        assert process.stdout is not None
        lines: list[str] = []
        async with asyncio.timeout(START_TIMEOUT_S):
            while line := (await process.stdout.readline()).decode():
                if found := re.fullmatch(r"ready (https?://\S+)/\n", line):
                    return cls(process, found[1], lines)
                lines.append(line)
        raise AssertionError(f"the server did not start: {''.join(lines)}")

    @property
    def log(self) -> str:
        return "".join(self._lines)

    async def info(self) -> dict[str, Any]:
        async with aiohttp.ClientSession() as http, http.get(f"{self.url}/v1/info") as response:
            found: dict[str, Any] = await response.json()
            return found

    async def free_slots(self) -> int:
        return int((await self.info())["slots"]["free"])

    async def stop(self) -> float:
        """End it by SIGTERM; the seconds that took."""
        began = asyncio.get_running_loop().time()
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            raise
        await self._reader
        return asyncio.get_running_loop().time() - began

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self._lines.append(line.decode())


@contextlib.asynccontextmanager
async def serving(*options: str) -> AsyncIterator[RealServer]:
    """A server for one test. Its log must be free of traces."""
    server = await RealServer.start(*options)
    try:
        yield server
    finally:
        await server.stop()
    assert "Traceback" not in server.log, server.log
    assert "never retrieved" not in server.log, server.log
