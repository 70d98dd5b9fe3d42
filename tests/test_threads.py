"""Blocking work off the loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from rtc_agent.threads import in_daemon_thread


async def test_results_and_errors_come_back() -> None:
    assert await in_daemon_thread(lambda: threading.current_thread().daemon)

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await in_daemon_thread(fail)


async def test_giving_up_waits_for_nothing() -> None:
    release = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await in_daemon_thread(release.wait)
    release.set()


def test_a_process_ends_while_the_work_goes_on() -> None:
    code = (
        "import asyncio, time\n"
        "from rtc_agent.threads import in_daemon_thread\n"
        "async def main():\n"
        "    asyncio.ensure_future(in_daemon_thread(lambda: time.sleep(60)))\n"
        "    await asyncio.sleep(0.1)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
