"""How a child process learns that it is to end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys


async def until_stopped() -> None:
    """Return once SIGTERM has come. SIGINT goes to the whole group of a terminal and is the
    parent's to act on."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    await stopped.wait()


def watch_parent(parent: int) -> None:
    """End with the parent process, even if that is killed: nobody else would end this one."""
    if sys.platform == "linux":
        parent_death_signal = 1
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the server's process has gone")
