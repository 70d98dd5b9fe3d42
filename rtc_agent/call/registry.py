"""All calls of this server: made here, found here, ended here."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from rtc_agent import logs
from rtc_agent.call.call import Call, CallIds
from rtc_agent.call.channel import Dialects
from rtc_agent.call.limits import CallLimits
from rtc_agent.call.line import Line
from rtc_agent.call.state import EndReason
from rtc_agent.call.transport import Transport, TransportEvents
from rtc_agent.call.watching import CallWatcher
from rtc_agent.clock import Clock
from rtc_agent.engine.client import EngineClient
from rtc_agent.engine.stepper import SessionSpec
from rtc_agent.errors import (
    CallConflict,
    EngineFailed,
    RtcAgentError,
    ServerDraining,
    UnknownCall,
)
from rtc_agent.protocol import native, rtvi

log = logging.getLogger(__name__)

CHECK_EVERY_S = 0.5
DRAIN_LOOK_S = 0.2
RETRY_S = 5
FAREWELL_S = 0.3
"""How long a connection stays after its call ended, so that the caller learns why."""

DIALECTS: Dialects = {native.LABEL: native.NativeDialect, rtvi.LABEL: rtvi.RtviDialect}
"""Every protocol a data channel may speak, by the channel's label."""

Connect = Callable[[TransportEvents], Awaitable[tuple[Transport, str]]]
"""Makes the transport that answers an offer; returns it with the answer."""


class CallRegistry:
    """Owns every call from its offer to the close of its connection."""

    def __init__(
        self,
        engine: EngineClient,
        limits: CallLimits,
        clock: Clock,
        dialects: Dialects = DIALECTS,
        name: str = "",
    ) -> None:
        """
        Args:
            name: where there are several registries, this one's: ids of its calls begin with it,
                so that whatever is said of a call finds its way.
        """
        self.engine = engine
        self.prefix = f"{name}-" if name else ""
        """What the ids of this registry's calls begin with, and those of whatever leads to one."""
        self.watchers: list[CallWatcher] = []
        """Told of every refusal and every end."""
        self._dialects = dialects
        self._limits = limits
        self._clock = clock
        self._calls: dict[str, Call] = {}
        self._draining = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._check_task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls.values()))

    @property
    def limits(self) -> CallLimits:
        """Limits of every call that has none of its own; new ones count for new calls."""
        return self._limits

    @limits.setter
    def limits(self, limits: CallLimits) -> None:
        self._limits = limits

    @property
    def draining(self) -> bool:
        return self._draining

    def start(self) -> None:
        """Begin to apply the limits, on the running event loop."""
        self._check_task = asyncio.get_running_loop().create_task(
            self._check_all(), name="call limits"
        )

    def get(self, session_id: str) -> Call:
        """The call that holds this session id.

        Raises:
            UnknownCall: none does, any more or ever.
        """
        try:
            return self._calls[session_id]
        except KeyError:
            raise UnknownCall("No call of that id is in progress.") from None

    async def place(
        self,
        spec: SessionSpec,
        connect: Connect,
        limits: CallLimits | None = None,
        dialects: Dialects | None = None,
        may_return: bool = False,
    ) -> tuple[Call, str]:
        """Make a call: take a slot, answer the offer.

        Args:
            limits: this call's own; the server's if left out.
            dialects: protocols of this call's channels alone, beside the server's.
            may_return: its caller knows how to come back to it after a lost connection.

        Returns:
            The call, and the answer for the caller.

        Raises:
            ServerFull, ServerDraining, EngineFailed: not now.
            InvalidOffer, UnsupportedOffer, UnknownVoice, InvalidPersona: not like this.
            In every case nothing is held afterwards.
        """
        try:
            return await self._place(spec, connect, limits or self._limits, dialects, may_return)
        except RtcAgentError as error:
            self._report_refusal(error)
            raise

    async def _place(
        self,
        spec: SessionSpec,
        connect: Connect,
        limits: CallLimits,
        dialects: Dialects | None,
        may_return: bool,
    ) -> tuple[Call, str]:
        if self._draining:
            raise ServerDraining("This server is being stopped and takes no new calls.")
        ids = CallIds(
            public=f"call-{self.prefix}{secrets.token_hex(4)}",
            session=f"{self.prefix}{secrets.token_urlsafe(16)}",
        )
        logs.call_id.set(ids.public)
        call = Call(
            ids,
            spec,
            self.engine,
            limits if may_return else replace(limits, reconnect_s=0),
            self._clock,
            {**self._dialects, **(dialects or {})},
            self._on_ended,
        )
        self._calls[ids.session] = call
        try:
            await call.open()
            transport, answer = await connect(call.line)
        except BaseException:
            call.end(EndReason.REFUSED)
            raise
        call.attach(transport)
        if call.reason is not None:
            self._spawn(transport.aclose())
            _refuse_ended(call.reason)
        return call, answer

    async def reconnect(self, session_id: str, connect: Connect) -> tuple[Call, str]:
        """Give a call another connection in place of the one it has or had.

        Returns:
            The call, and the answer for the caller.

        Raises:
            UnknownCall: it is over.
            CallConflict: it does not outlive its connection.
            InvalidOffer, UnsupportedOffer: not like this; the call stays as it was.
        """
        call = self.get(session_id)
        if not call.may_return:
            raise CallConflict("This call cannot be moved to another connection.")
        logs.call_id.set(call.ids.public)
        line = Line(call)
        transport, answer = await connect(line)
        if call.reason is not None:
            self._spawn(transport.aclose())
            raise UnknownCall("The call ended while its new connection was made.")
        if (old := call.move(line, transport)) is not None:
            self._spawn(old.aclose())
        return call, answer

    async def drain(self, timeout_s: float, hurry: asyncio.Event | None = None) -> None:
        """Take no more calls, and let those there are go on for so long, which they are told.

        Args:
            hurry: ends the wait.
        """
        self._draining = True
        until_s = self._clock.now() + timeout_s
        if timeout_s <= 0 or not self._calls:
            return
        log.info("draining: %d calls may go on for %.0f s", len(self), timeout_s)
        for call in self:
            call.tell(
                "draining", f"The server is being stopped: the call ends in {timeout_s:.0f} s."
            )
        while self._calls and self._clock.now() < until_s and not (hurry and hurry.is_set()):
            await self._clock.sleep_until(min(until_s, self._clock.now() + DRAIN_LOOK_S))

    async def aclose(self, timeout_s: float) -> None:
        """Take no more calls, end those there are and tell them why, within the timeout."""
        self._draining = True
        for call in self:
            call.end(EndReason.SERVER_STOPPING)
        if self._check_task is not None:
            self._check_task.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in late:
                task.cancel()
            if late:
                log.warning("%d connections did not close within %.0f s", len(late), timeout_s)

    def _on_ended(self, call: Call) -> None:
        self._calls.pop(call.ids.session, None)
        if call.reason is not EndReason.REFUSED:
            self._report(call)
        if call.transport is not None:
            self._spawn(self._part(call.transport))
        for listener in call.listeners:
            self._spawn(listener.aclose())

    def _report_refusal(self, error: RtcAgentError) -> None:
        for watcher in self.watchers:
            try:
                watcher.on_refused(error)
            except Exception:
                log.exception("a refusal is missing in the figures")

    def _report(self, call: Call) -> None:
        """Figures must not stand in the way of a call's end."""
        try:
            facts = call.facts()
            for watcher in self.watchers:
                watcher.on_ended(facts)
        except Exception:
            log.exception("a call's figures are lost", extra={"call_id": call.ids.public})

    async def _part(self, transport: Transport) -> None:
        await asyncio.sleep(FAREWELL_S)
        await transport.aclose()

    def _spawn(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            try:
                await work
            except Exception:
                log.exception("closing a connection failed")

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check_all(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.now() + CHECK_EVERY_S)
            self._check()

    def _check(self) -> None:
        """Not in the task itself, whose variable would keep the last call until the next one."""
        for call in self:
            try:
                call.check()
            except Exception:
                log.exception("a call failed; only it ends", extra={"call_id": call.ids.public})
                call.end(EndReason.AGENT_FAILED)


def _refuse_ended(reason: EndReason) -> None:
    """Raise for what ended a call of this side before its offer was answered: an answer would have
    its caller wait for a connection that never comes."""
    match reason:
        case EndReason.SERVER_STOPPING:
            raise ServerDraining("The server began to stop while the call was set up.")
        case EndReason.AGENT_FAILED:
            raise EngineFailed(
                "The agent failed while the call was set up; try again.", retry_after_s=RETRY_S
            )
