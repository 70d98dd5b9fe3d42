"""The real server in a process of its own, as a user starts it."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

START_TIMEOUT_S = 60


class RealServer:
    """`rtc-agent serve` in a process of its own."""

    def __init__(self, process: Process, url: str) -> None:
        self.process = process
        self.url = url

    @classmethod
    async def start(cls, *options: str) -> RealServer:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rtc_agent", "serve", "--agent", "echo", "--port", "0"),
            *("--ice-host", "127.0.0.1", *options),
            stdout=PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                line = (await process.stdout.readline()).decode()
        except BaseException:
            process.kill()
            raise
        found = re.fullmatch(r"ready (http://\S+)\n", line)
        assert found, line
        return cls(process, found[1])

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            await self.process.wait()
