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


@pytest.mark.parametrize("status", [0, 2])
def test_a_command_ends_cleanly_while_a_library_is_at_work(status: int) -> None:
    """Its thread is inside C++ without the GIL, as when weights are read."""
    code = (
        "import asyncio, sys\n"
        "import torch\n"
        "from rtc_agent import cli\n"
        "from rtc_agent.cli import app as application\n"
        "from rtc_agent.threads import in_daemon_thread\n"
        "def work():\n"
        "    while True:\n"
        "        torch.ones(2_000_000).sort()\n"
        "async def command():\n"
        "    asyncio.ensure_future(in_daemon_thread(work))\n"
        "    await asyncio.sleep(0.3)\n"
        "def app():\n"
        "    asyncio.run(command())\n"
        f"    sys.exit({status})\n"
        "application.app = app\n"
        "print('over')\n"
        "cli.main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (status, b"over\n"), ended.stderr
