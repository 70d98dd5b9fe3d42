"""Memory that calls leave behind in cycles, given back while the server runs."""

from __future__ import annotations

import asyncio
import gc

from rtc_agent.call.watching import CallFacts
from rtc_agent.errors import RtcAgentError

AFTER_S = 1.0
"""From the end of a call, whose connection is closed by then, to the collection."""


def settle() -> None:
    """Set apart all that was made while starting: what comes later belongs to calls.

    Connections leave cycles, which only a full collection frees. Python makes one once what is new
    outgrows a quarter of what is old, which with a model's libraries loaded takes hundreds of
    calls, and then goes through all of it. What is set apart counts as neither.
    """
    gc.collect()
    gc.freeze()


class AfterCalls:
    """A `CallWatcher` that has the cycles of ended calls collected, once for all that end within
    `AFTER_S`. After `settle` a collection takes a few milliseconds."""

    def __init__(self) -> None:
        self._due: asyncio.TimerHandle | None = None

    def on_refused(self, error: RtcAgentError) -> None:
        """A refusal leaves next to nothing."""

    def on_ended(self, facts: CallFacts) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(AFTER_S, self._collect)

    def _collect(self) -> None:
        self._due = None
        gc.collect()
