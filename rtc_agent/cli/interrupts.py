"""Ctrl-C in a command.

Python makes an exception of it. Raised in the middle of an import, that leaves half a module
behind, which fails again on the way out; raised where a C extension calls back, it is lost, and the
command goes on. So Ctrl-C is an exception only once a command's work has begun.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def end_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process as it ends a program that knows nothing of it.

    Where it is ignored already, as a shell does for what it starts in the background, it stays so.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, and from here on Ctrl-C cancels the work, which can clean up."""
    import asyncio

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return asyncio.run(work)
