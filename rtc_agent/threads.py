"""Work that blocks, on a thread that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_unfinished: set[threading.Thread] = set()


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """The result of `work()`; raises what it raises.

    Unlike `asyncio.to_thread`, the process may end while it runs: a server that is stopped while it
    loads a model does not load it to the end first. Such a process ends by `end_process`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        _unfinished.discard(threading.current_thread())
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish, result, error)

    thread = threading.Thread(target=run, daemon=True)
    _unfinished.add(thread)
    thread.start()
    return await done


def end_process(status: int) -> None:
    """End this process here if work is unfinished; return if there is none.

    The interpreter's own way out stops a thread where it next asks for the GIL. In the middle of a
    C++ library, as when weights are read, that aborts the process.
    """
    if not _unfinished:
        return
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
