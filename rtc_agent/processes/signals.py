"""What a child process hears from its parent and says to it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

ALIVE_EVERY_S = 1.0


async def until_stopped() -> None:
    """Return once SIGTERM has come; until then, tell the parent that this event loop turns."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    while not stopped.is_set():
        tell_parent("alive")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALIVE_EVERY_S):
                await stopped.wait()


def tell_parent(word: str) -> None:
    """One line on stdout. A parent that does not read, or is gone, is not waited for."""
    stdout = 1
    os.set_blocking(stdout, False)
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(stdout, f"{word}\n".encode())


def end_with_parent(parent: int, number: signal.Signals) -> None:
    """Get a signal once the thread that started this process is gone, which is at the latest when
    its process is; exit if that has gone already."""
    if sys.platform == "linux":
        parent_death_signal = 1
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(parent_death_signal, number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the server's process has gone")


@contextlib.contextmanager
def child_of(parent: int, folder: Path) -> Iterator[None]:
    """End with the parent process, even if that is killed: nobody else would end this one, or
    clear away the folder that the two share."""
    try:
        end_with_parent(parent, signal.SIGTERM)
        yield
    finally:
        if os.getppid() != parent:
            shutil.rmtree(folder, ignore_errors=True)
