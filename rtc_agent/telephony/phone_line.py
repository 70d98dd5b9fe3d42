"""The phone line: as many handles at the gateway as calls at once, and who gets which call."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rtc_agent.call.state import EndReason
from rtc_agent.clock import Clock
from rtc_agent.errors import (
    ConfigError,
    GatewayRefused,
    GatewayUnreachable,
    InvalidRequest,
    NumberNotAllowed,
    ServerFull,
    UnknownCall,
)
from rtc_agent.protocol import janus, janus_sip
from rtc_agent.protocol.janus import Jsep, Message, PluginEvent, Trickle
from rtc_agent.protocol.janus_sip import SipEvent
from rtc_agent.telephony import account
from rtc_agent.telephony.account import Account
from rtc_agent.telephony.agent_side import AgentSide
from rtc_agent.telephony.backoff import Backoff
from rtc_agent.telephony.config import DialRule, TelephonySettings
from rtc_agent.telephony.janus_session import Gateway, JanusSession
from rtc_agent.telephony.phone_call import PhoneCall
from rtc_agent.telephony.phone_context import PhoneContext
from rtc_agent.telephony.records import RecordFile

log = logging.getLogger(__name__)

SPARE_HANDLES = 10
"""Handles beyond the lines, so that a caller too many gets the answer of the settings: with none
free the gateway itself answers 486. A refused call holds its handle for `RESET_AFTER_S`, and those
who are refused call again at once."""

RESET_AFTER_S = 2.0
"""The gateway needs a moment to take a call down; a reset before that lets it give the handle to a
new call and take that one down instead."""

PART_S = 1.0
"""How long a stopping line waits for the gateway to take its farewells."""


@dataclass(slots=True)
class Handle:
    """One of the gateway's handles: it carries one call at a time."""

    session: JanusSession
    id: int
    call: PhoneCall | None = None
    early: list[Trickle] = field(default_factory=list)
    """Candidates that came before their call."""

    @property
    def free(self) -> bool:
        return self.call is None or self.call.ended

    async def ask(self, body: dict[str, Any], jsep: Jsep | None = None) -> PluginEvent:
        return await self.session.ask(self.id, body, jsep)

    async def tell(self, body: dict[str, Any], jsep: Jsep | None = None) -> None:
        await self.session.tell(self.id, body, jsep)


@dataclass(frozen=True, slots=True)
class LineStatus:
    """How the line is doing, for readiness and for people."""

    ready: bool
    detail: str
    """Why it is not ready; empty when it is."""
    calls: int
    lines: int


class PhoneLine:
    """Connects, registers, takes and makes calls, and does all of it again when something is lost.

    While the connection to the gateway is lost, live calls go on: their media does not depend on
    it. They end only if the gateway no longer knows them.
    """

    def __init__(self, settings: TelephonySettings, agents: AgentSide, clock: Clock) -> None:
        self._settings = settings
        self._agents = agents
        self._records = RecordFile(settings.cdr_file)
        self._context = PhoneContext(settings, agents, clock, self._records, self._on_call_ended)
        self._account = Account(settings)
        self._session = JanusSession(_gateway(settings), self._on_message)
        self._handles: dict[int, Handle] = {}
        self._calls: dict[str, PhoneCall] = {}
        self._run_task: asyncio.Task[None] | None = None
        self._closing = False
        self._detached = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._detail = "not connected yet"

    def start(self) -> None:
        """Begin to connect and register, in the background, for as long as it takes.

        Raises:
            ConfigError: the dial plan asks for what this server does not have.
        """
        for rule in self._settings.dial_plan:
            self._agents.check(rule)
        self._run_task = asyncio.get_running_loop().create_task(self._run(), name="phone line")

    def status(self) -> LineStatus:
        connected = self._session.connected
        ready = connected and self._account.registered and bool(self._handles)
        detail = "" if ready else self._account.detail if connected else self._detail
        return LineStatus(ready, detail, self.busy, self._settings.lines)

    @property
    def busy(self) -> int:
        """Calls now."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[PhoneCall]:
        return (call for call in list(self._calls.values()) if not call.ended)

    def get(self, phone_id: str) -> PhoneCall:
        """A call in progress by its id.

        Raises:
            UnknownCall: there is none of that id, any more or ever.
        """
        call = self._calls.get(phone_id)
        if call is None:
            raise UnknownCall("No telephone call of that id is in progress.")
        return call

    def check_outgoing(self, uri: str) -> None:
        """Raises InvalidRequest or NumberNotAllowed for what may not be called."""
        if janus_sip.parse_uri(uri) is None:
            raise InvalidRequest(f"{uri[:100]!r} is no SIP address; expected sip:name@host.")
        if not self._settings.may_call(uri):
            raise NumberNotAllowed("The settings (telephony.outgoing) do not allow that address.")

    async def dial(self, uri: str, rule: DialRule | None = None) -> PhoneCall:
        """Call a SIP address; the agent talks once somebody answers.

        Args:
            rule: voice, persona and limits for the call; the agent's own if left out.

        Returns:
            The call, ringing.

        Raises:
            InvalidRequest: that is no SIP address.
            NumberNotAllowed: the settings do not let it be called.
            ServerFull, ServerDraining, EngineFailed: not now.
            GatewayUnreachable, GatewayRefused: the line cannot call at the moment.
        """
        self.check_outgoing(uri)
        status = self.status()
        if self._closing or not status.ready:
            raise GatewayUnreachable(f"The phone line is not ready: {status.detail}.")
        # The gateway gives its own calls to the first free handle: the last one is the safest.
        free = [h for h in reversed(self._handles.values()) if h.free]
        handle = min(free, key=lambda h: h.call is not None, default=None)
        if self.busy >= self._settings.lines or handle is None:
            raise ServerFull(f"All {self._settings.lines} telephone lines are taken.")
        call = self._make(
            handle, rule or DialRule(), "outgoing", self._settings.account, uri, _new_call_id()
        )
        await call.dial(uri)
        return call

    async def aclose(self) -> None:
        """Hang up, tell the gateway, and close. Bounded in time; idempotent."""
        self._closing = True
        calls = list(self)
        for call in calls:
            call.hang_up(EndReason.SERVER_STOPPING)
        if farewells := {task for call in calls for task in call.tasks}:
            await asyncio.wait(farewells, timeout=PART_S)
        await self._session.aclose()
        if self._run_task is not None:
            self._run_task.cancel()
            await asyncio.wait({self._run_task})
        await self._records.aclose()

    # -- staying connected ----------------------------------------------------------------------

    async def _run(self) -> None:
        backoff = Backoff(self._settings.retry_limit_s)
        while not self._closing:
            try:
                await self._connect()
                backoff.reset()
                self._detail = "the connection to the gateway is lost"
                await self._serve()
            except (GatewayUnreachable, GatewayRefused) as error:
                self._detail = error.message
            except Exception:
                self._detail = "the phone line failed; the log says more"
                log.exception("the phone line failed and starts again")
            log.warning("the phone line is down: %s", self._detail)
            await backoff.wait()

    async def _connect(self) -> None:
        if await self._session.connect():
            log.info("the gateway kept our session: %d calls go on", self.busy)
            await self._turn_away_unknown()
            return
        for handle in self._handles.values():
            if handle.call is not None:
                handle.call.on_gateway_lost()
        self._handles.clear()
        self._account.forget()

    async def _serve(self) -> None:
        """Register and keep the session, until either ends."""
        loop = asyncio.get_running_loop()
        self._detached.clear()
        detached = loop.create_task(self._detached.wait(), name="gateway handles")
        work: set[asyncio.Task[Any]] = {
            detached,
            loop.create_task(self._session.run(), name="gateway session"),
            loop.create_task(self._stay_registered(), name="registration"),
        }
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if detached in done:
                await self._session.aclose()
        finally:
            for task in work:
                task.cancel()
            await asyncio.wait(work)

    async def _stay_registered(self) -> None:
        if not self._handles:
            await self._attach()
        first = next(iter(self._handles.values()))
        while True:
            if not self._account.registered:
                master_id = await self._account.register(first)
                await self._attach_helpers(master_id)
            await self._account.lost()

    async def _attach(self) -> None:
        handle_id = await self._session.attach(janus_sip.PLUGIN)
        self._handles[handle_id] = Handle(self._session, handle_id)

    async def _attach_helpers(self, master_id: int) -> None:
        """Let further handles take the account's calls. Those that there are stay as they are."""
        while len(self._handles) < self._settings.lines + SPARE_HANDLES:
            handle = Handle(self._session, await self._session.attach(janus_sip.PLUGIN))
            answer = await handle.ask(
                {
                    "request": "register",
                    "type": "helper",
                    "username": self._settings.account,
                    "master_id": master_id,
                }
            )
            event = janus_sip.read(answer.data)
            if event.name != "registered":
                raise GatewayRefused(
                    f"The telephone gateway refused a further line: {event.text('error')}."
                )
            self._handles[handle.id] = handle

    async def _turn_away_unknown(self) -> None:
        """Callers who came while nobody was connected have rung long enough."""
        for handle in self._handles.values():
            if handle.free:
                await handle.tell({"request": "decline", "code": 480})

    # -- what the gateway says ------------------------------------------------------------------

    def _on_message(self, message: Message) -> None:
        handle = self._handles.get(message.handle_id or 0)
        if handle is None:
            return
        match message:
            case PluginEvent(data=data, jsep=jsep):
                self._on_event(handle, janus_sip.read(data), jsep)
            case Trickle():
                if handle.free:
                    handle.early.append(message)
                elif handle.call is not None:
                    handle.call.on_trickle(message)
            case janus.Detached():
                log.warning("the gateway gave up a handle: the phone line starts anew")
                self._detached.set()
            case janus.SlowLink(uplink=uplink, lost=lost):
                log.debug("the gateway counts %d packets lost (uplink: %s)", lost, uplink)

    def _on_event(self, handle: Handle, event: SipEvent, jsep: Jsep | None) -> None:
        if event.name in account.EVENTS:
            self._account.on_event(event)
        elif event.name == "incomingcall":
            self._on_incoming(handle, event, jsep)
        elif event.name == "missed_call":
            log.warning("a telephone call came while every handle was taken")
        elif handle.call is not None:
            handle.call.on_sip(event, jsep)
            if event.name == "hangup" and event.call_id in (None, handle.call.sip_call_id):
                self._release(handle)

    def _on_incoming(self, handle: Handle, event: SipEvent, jsep: Jsep | None) -> None:
        if handle.call is not None:
            # Its hangup event went astray, or the gateway would not give the handle away.
            handle.call.on_gateway_lost()
        called = janus_sip.parse_uri(event.text("callee"))
        number = called.user if called is not None else ""
        rule = self._settings.rule_for(number)
        taken = self.busy
        call = self._make(
            handle,
            rule or DialRule(),
            "incoming",
            event.text("username"),
            event.text("callee"),
            event.call_id,
        )
        early, handle.early = handle.early, []
        for trickle in early:
            call.on_trickle(trickle)
        if rule is None:
            call.refuse(404)
        elif self._closing:
            call.refuse(503)
        elif taken >= self._settings.lines or self._at_limit(rule, call):
            call.refuse(self._settings.full_code)
        else:
            call.take(jsep)

    def _at_limit(self, rule: DialRule, new: PhoneCall) -> bool:
        others = sum(call.rule is rule for call in self if call is not new)
        return rule.max_calls is not None and others >= rule.max_calls

    def _make(
        self,
        handle: Handle,
        rule: DialRule,
        direction: Any,
        caller: str,
        called: str,
        sip_call_id: str | None,
    ) -> PhoneCall:
        call = PhoneCall(
            self._context,
            handle,
            rule,
            direction=direction,
            caller=caller,
            called=called,
            sip_call_id=sip_call_id,
        )
        handle.call = call
        self._calls[call.id] = call
        log.info("telephone call %s: %s", call.id, direction)
        log.debug("telephone call %s: %s to %s", call.id, caller, called)
        return call

    def _on_call_ended(self, call: PhoneCall) -> None:
        self._calls.pop(call.id, None)

    def _release(self, handle: Handle) -> None:
        """The gateway is done with the handle's call."""
        handle.call = None
        handle.early.clear()
        self._spawn(self._reset(handle))

    async def _reset(self, handle: Handle) -> None:
        """Free a handle whose call was given up while it rang.

        The gateway (seen in 1.1) may go on counting such a call as being set up, and answer every
        further one on that handle with 486. Can go once its `hangup` event means that all is over.
        """
        await asyncio.sleep(RESET_AFTER_S)
        if handle.call is None and self._handles.get(handle.id) is handle:
            await handle.tell({"request": "reset"})

    def _spawn(self, work: Any) -> None:
        async def run() -> None:
            try:
                await work
            except (GatewayUnreachable, GatewayRefused) as error:
                log.debug("%s", error)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _gateway(settings: TelephonySettings) -> Gateway:
    if not settings.enabled:
        raise ConfigError("No telephone gateway is set (telephony.janus).")
    return Gateway(
        settings.janus,
        secret=settings.api_secret.get_secret_value() if settings.api_secret else None,
        token=settings.token.get_secret_value() if settings.token else None,
        keepalive_s=settings.keepalive_s,
    )


def _new_call_id() -> str:
    return secrets.token_hex(12)
