"""One session of the local engine: what it holds and how far it has come."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator

from rtc_agent.engine.client import FrameSink, FrameSource
from rtc_agent.engine.slots import Lease
from rtc_agent.engine.stepper import SessionSpec


class Phase(enum.Enum):
    """A session's way through the engine; it never goes back, unless it is reopened."""

    REOPENING = "reopening"
    """What it had is to be cleared away first."""

    OPENING = "opening"
    READY = "ready"
    LIVE = "live"
    CLOSED = "closed"


class LocalSession:
    """A slot, the pieces of work that prepare it, and the call at its other end."""

    def __init__(
        self,
        lease: Lease,
        opening: Iterator[None],
        source: FrameSource,
        sink: FrameSink,
        call_id: str,
        on_close: Callable[[LocalSession], None],
        on_reopen: Callable[[LocalSession, SessionSpec], None],
        bank: int = 0,
    ) -> None:
        self.bank = bank
        """Number of the engine that it belongs to, among those of one device."""
        self.lease = lease
        self.opening = opening
        self.source = source
        self.sink = sink
        self.call_id = call_id
        self.phase = Phase.OPENING
        self.opening_s = 0.0
        """Work that preparing it has taken so far."""
        self.unheard = 0
        """Frames in a row whose sound was lost."""
        self._first_tick: int | None = None
        self._on_close = on_close
        self._on_reopen = on_reopen

    @property
    def slot(self) -> int:
        """Its slot, counted within its bank."""
        return self.lease.slot

    @property
    def ready(self) -> bool:
        return self.phase in (Phase.READY, Phase.LIVE)

    def start(self) -> None:
        if self.phase is Phase.READY:
            self.phase = Phase.LIVE

    def reopen(self, spec: SessionSpec) -> None:
        if self.phase is not Phase.CLOSED:
            self._on_reopen(self, spec)
            self.phase = Phase.REOPENING
            self._first_tick = None
            self.unheard = 0

    def close(self) -> None:
        if self.phase is not Phase.CLOSED:
            self.phase = Phase.CLOSED
            self._on_close(self)

    def frame_index(self, tick: int) -> int:
        """The session's own number of that tick; its first one is 0."""
        if self._first_tick is None:
            self._first_tick = tick
        return tick - self._first_tick

    @property
    def stepped(self) -> bool:
        """Whether it has had its first tick."""
        return self._first_tick is not None
