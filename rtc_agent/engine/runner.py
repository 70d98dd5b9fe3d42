"""Where a stepper's work runs: never on the event loop, one piece at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class StepRunner(Protocol):
    """Runs the stepper's methods one after another, away from the event loop."""

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work()`; raises what it raises."""
        ...

    def shutdown(self) -> None:
        """Take no more work; a piece that hangs is not waited for."""
        ...


class ThreadRunner:
    """One worker thread: numpy, torch and CUDA calls let go of the interpreter while they work."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="stepper")

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def shutdown(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
