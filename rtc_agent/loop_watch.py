"""Watches the event loop: how late it is, and where it stands when it does not turn.

Everything of a call but the model's step runs on the loop, so that its lag is the caller's jitter.
"""

from __future__ import annotations

import asyncio
import linecache
import logging
import selectors
import sys
import threading
import traceback
from collections.abc import Callable

from rtc_agent.clock import Clock

log = logging.getLogger(__name__)

EVERY_S = 0.05
STALL_S = 0.1
STACK_FRAMES = 6
QUIET_S = 10.0
"""Between two warnings with a stack."""


class LoopWatch:
    """Measures the loop's lag, and logs the stack of what holds it up for more than `STALL_S`."""

    def __init__(
        self,
        clock: Clock,
        on_lag: Callable[[float], None],
        harmless: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        Args:
            on_lag: told every `EVERY_S` how late the loop came round, in seconds.
            harmless: asked, from any thread, whether a stall is to go without a warning now.
        """
        self._clock = clock
        self._on_lag = on_lag
        self._harmless = harmless
        self._turned_s = 0.0
        self._stopped = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watch the running loop."""
        self._turned_s = self._clock.now()
        self._task = asyncio.get_running_loop().create_task(self._measure(), name="loop lag")
        self._thread = threading.Thread(
            target=self._watch, args=(threading.get_ident(),), name="loop watch", daemon=True
        )
        self._thread.start()

    async def aclose(self) -> None:
        self._stopped.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _measure(self) -> None:
        while True:
            due_s = self._clock.now() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self._turned_s = self._clock.now()
            self._on_lag(max(0.0, self._turned_s - due_s))

    def _watch(self, loop_thread: int) -> None:
        last_s: float | None = None
        while not self._stopped.wait(EVERY_S):
            now = self._clock.now()
            stalled_s = now - self._turned_s - EVERY_S
            if stalled_s < STALL_S or (last_s is not None and now - last_s < QUIET_S):
                continue
            if self._harmless():
                continue
            last_s = now
            log.warning(
                "the event loop has not turned for %.0f ms; it is here:\n%s",
                stalled_s * 1e3,
                _stack(loop_thread),
            )


def _stack(thread: int) -> str:
    """Where the thread is. A loop that waits for its selector is not held up by any code."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "  (its thread is gone)"
    if frame.f_code.co_filename == selectors.__file__:
        return "  (nothing runs on it: the machine has given it no time)"
    lines = "".join(traceback.format_stack(frame, STACK_FRAMES)).rstrip()
    # It keeps every file that it quotes from whole, a megabyte and more with time.
    linecache.clearcache()
    return lines
