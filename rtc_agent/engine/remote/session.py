"""One session of a remote engine, as the media process that holds its call knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from rtc_agent.engine.client import FrameSink, FrameSource
from rtc_agent.engine.session import Phase
from rtc_agent.engine.stepper import SessionSpec


class RemoteSession:
    """An `EngineSession`; `start` and `close` are told to the engine by the callbacks.

    It is live once the engine says so, and where: its frames go into its own slot's memory only.
    """

    def __init__(
        self,
        key: int,
        source: FrameSource,
        sink: FrameSink,
        send_start: Callable[[RemoteSession], Coroutine[Any, Any, None]],
        send_close: Callable[[RemoteSession], None],
        send_reopen: Callable[[RemoteSession, SessionSpec], None],
    ) -> None:
        self.key = key
        self.slot = -1
        """Its place in the shared memory, under that lease; told by the engine once it is live."""
        self.lease = 0
        self.bank = 0
        """Whose ticks are its own; until it is live, of the bank that prepares it."""
        self.source = source
        self.sink = sink
        self.phase = Phase.OPENING
        self.fed = False
        """Whether a frame of it has been handed over."""
        self.opening = 0
        """How often it was reopened, by which what is told of an earlier opening is known."""
        self._starting: asyncio.Task[None] | None = None
        self._send_start = send_start
        self._send_close = send_close
        self._send_reopen = send_reopen

    @property
    def ready(self) -> bool:
        return self.phase in (Phase.READY, Phase.LIVE)

    @property
    def live(self) -> bool:
        return self.phase is Phase.LIVE

    def become_ready(self, opening: int) -> None:
        """The engine has prepared that opening of it, which another may have replaced meanwhile."""
        if opening == self.opening and self.phase in (Phase.OPENING, Phase.REOPENING):
            self.phase = Phase.READY
            self.sink.on_ready()

    def start(self) -> None:
        if self.phase is Phase.READY and self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._send_start(self))

    def go_live(self, slot: int, bank: int, lease: int) -> None:
        """The engine has started it, in that slot of that bank, under that lease."""
        self.slot, self.bank, self.lease = slot, bank, lease
        if self.phase is Phase.READY:
            self.phase = Phase.LIVE

    def reopen(self, spec: SessionSpec) -> None:
        if self.phase is not Phase.CLOSED:
            self.phase = Phase.REOPENING
            self.fed = False
            self.opening += 1
            self._stop_starting()
            self._send_reopen(self, spec)

    def close(self) -> None:
        if self.phase is not Phase.CLOSED:
            self.phase = Phase.CLOSED
            self._stop_starting()
            self._send_close(self)

    def fail(self, reason: str) -> None:
        """The engine's side has ended it."""
        self.phase = Phase.CLOSED
        self._stop_starting()
        self.sink.on_failed(reason)

    def _stop_starting(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            self._starting = None
