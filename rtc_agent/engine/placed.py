"""A session that goes on in another bank than the one that prepared it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

from rtc_agent.clock import Clock
from rtc_agent.engine.client import CALL_FAILED, AgentFrame, FrameSink, FrameSource
from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.placing import PacketTimes, first_packets
from rtc_agent.engine.session import LocalSession
from rtc_agent.engine.stepper import SessionSpec
from rtc_agent.errors import RtcAgentError

log = logging.getLogger(__name__)


class PlacedSession:
    """An `EngineSession`, and to the bank that it is in the sink of it.

    When a caller's packets come is known only once they do, and by then the session is prepared in
    some bank. If another suits them better, it is opened there again, which copies the prompt that
    was just run and is done before that bank's next tick; nothing was said yet.

    Args:
        other_bank: the one that suits such packets better than the session's own, if any.
    """

    def __init__(
        self,
        spec: SessionSpec,
        source: FrameSource,
        sink: FrameSink,
        call_id: str,
        clock: Clock,
        other_bank: Callable[[LocalSession, PacketTimes], LocalEngine | None],
    ) -> None:
        self._spec, self._source, self._sink = spec, source, sink
        self._call_id, self._clock = call_id, clock
        self._other_bank = other_bank
        self._inner: LocalSession | None = None
        self._starting = False
        self._task: asyncio.Task[None] | None = None
        self.on_placed: Callable[[], None] = lambda: None
        """Told when the session goes live: from now on it is in this bank and slot."""

    def opened(self, inner: LocalSession) -> None:
        """The session in the bank that prepares it. To be called at once."""
        self._inner = inner

    @property
    def inner(self) -> LocalSession:
        """The session in the bank that it is in."""
        assert self._inner is not None
        return self._inner

    @property
    def bank(self) -> int:
        return self.inner.bank

    @property
    def slot(self) -> int:
        return self.inner.slot

    @property
    def ready(self) -> bool:
        return self._starting or self.inner.ready

    def start(self) -> None:
        """As `EngineSession.start`, once the caller's first packets have come; a caller who sends
        none is waited for a tenth of a second."""
        if self.inner.ready and not self._starting:
            self._starting = True
            self._task = asyncio.get_running_loop().create_task(self._start())

    async def _start(self) -> None:
        with self._contained():
            self._place(await first_packets(self._source, self._clock))

    def start_at(self, times: PacketTimes | None) -> None:
        """As `start`, of a caller whose packets are known to be due then."""
        if self.inner.ready and not self._starting:
            self._starting = True
            with self._contained():
                self._place(times)

    @contextlib.contextmanager
    def _contained(self) -> Iterator[None]:
        """What goes wrong in one call ends that call, and no other."""
        try:
            yield
        except Exception:
            log.exception("a session failed; only its call ends", extra={"call_id": self._call_id})
            self.inner.close()
            self._sink.on_failed(CALL_FAILED)

    def _place(self, times: PacketTimes | None) -> None:
        bank = None if times is None else self._other_bank(self.inner, times)
        if bank is None or not bank.opens_at_once(self._spec):
            # A prompt that was let go of since would be run again, where many begin at once.
            self._go_live()
            return
        try:
            moved = bank.open_now(self._spec, self._source, self, self._call_id)
        except RtcAgentError as error:
            log.warning(
                "a call stays in its bank: %s", error.message, extra={"call_id": self._call_id}
            )
            self._go_live()
            return
        # The copy alone would halve what openings are said to take.
        moved.opening_s = self.inner.opening_s
        self.inner.close()
        self._inner = moved

    def _go_live(self) -> None:
        self.on_placed()
        self.inner.start()

    def reopen(self, spec: SessionSpec) -> None:
        self._cancel()
        self._spec = spec
        self.inner.reopen(spec)

    def close(self) -> None:
        self._cancel()
        self.inner.close()

    def _cancel(self) -> None:
        self._starting = False
        if self._task is not None:
            self._task.cancel()
            self._task = None

    # What the bank reports

    def on_ready(self) -> None:
        if self._starting:
            self._go_live()
        else:
            self._sink.on_ready()

    def on_frame(self, frame: AgentFrame) -> None:
        self._sink.on_frame(frame)

    def on_skipped(self, frames: int) -> None:
        self._sink.on_skipped(frames)

    def tell(self, code: str, message: str, **fields: Any) -> None:
        self._sink.tell(code, message, **fields)

    def on_failed(self, reason: str) -> None:
        self._cancel()
        self._sink.on_failed(reason)
