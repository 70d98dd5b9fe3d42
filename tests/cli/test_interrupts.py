"""Ctrl-C before and after a command's work has begun."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

from rtc_agent.cli import interrupts


def test_an_interrupt_that_an_extension_would_lose_ends_the_process() -> None:
    script = (
        "import ctypes, signal\n"
        "from rtc_agent.cli import interrupts\n"
        "lossy = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))\n"
        "with interrupts.end_at_once():\n"
        "    lossy()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")


def test_work_that_has_begun_is_cancelled_and_cleans_up() -> None:
    cleaned = False

    async def work() -> None:
        nonlocal cleaned
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            cleaned = True

    with interrupts.end_at_once():
        try:
            interrupts.run(work())
        except KeyboardInterrupt:
            assert cleaned
            return
    raise AssertionError("the interrupt was lost")


def test_an_ignored_interrupt_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts.end_at_once():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            interrupts.run(asyncio.sleep(0))
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
