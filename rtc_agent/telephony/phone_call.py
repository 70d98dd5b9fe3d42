"""One telephone call: the gateway's events on one side, the agent's leg on the other."""

from __future__ import annotations

import asyncio
import enum
import logging
import secrets
from collections.abc import Awaitable
from typing import Any

from rtc_agent.call.state import EndReason
from rtc_agent.errors import (
    CallConflict,
    GatewayRefused,
    GatewayUnreachable,
    InvalidOffer,
    InvalidRequest,
    RtcAgentError,
    ServerFull,
    UnsupportedOffer,
)
from rtc_agent.protocol import janus_sip
from rtc_agent.protocol.janus import Jsep, Trickle
from rtc_agent.protocol.janus_sip import SipEvent
from rtc_agent.protocol.reinvite import answer_update, direction, offer_again
from rtc_agent.telephony import hangup
from rtc_agent.telephony.agent_side import AgentLeg
from rtc_agent.telephony.config import DialRule
from rtc_agent.telephony.keys import KeyMerger, KeySource
from rtc_agent.telephony.phone_context import PhoneContext, SipHandle
from rtc_agent.telephony.records import CallRecord, Direction, Party

log = logging.getLogger(__name__)


ANSWERABLE_AFTER_S = 0.1
"""The gateway (seen in 1.1) tells of a call a moment before it can answer it: an answer that comes
sooner is lost, and the telephone rings on. Can go once it tells of calls only when it can."""


class PhoneState(enum.StrEnum):
    """A telephone call's way; it never goes back, but between talking and held."""

    RINGING = "ringing"
    """Called, and not yet answered; or calling, and not yet picked up."""
    TALKING = "talking"
    HELD = "held"
    """By the telephone."""
    ENDED = "ended"


class PhoneCall:
    """Made by the line for an `incomingcall` event or an outgoing call, then driven by events.

    Whatever comes first ends it, once: the telephone, the agent's side, the gateway, a limit. The
    handle may be given to another call only after the gateway's own `hangup` event.
    """

    def __init__(
        self,
        context: PhoneContext,
        handle: SipHandle,
        rule: DialRule,
        *,
        direction: Direction,
        caller: str,
        called: str,
        sip_call_id: str | None,
    ) -> None:
        self.rule = rule
        self.sip_call_id = sip_call_id
        self.state = PhoneState.RINGING
        self.leg: AgentLeg | None = None
        self.record = CallRecord(
            id=f"phone-{secrets.token_hex(4)}",
            direction=direction,
            caller=caller,
            called=called,
            sip_call_id=sip_call_id,
            started=context.wall_time(),
        )
        self._context = context
        self._handle = handle
        self._keys = KeyMerger()
        self._candidates: list[Trickle] = []
        self._version = 0
        self._answered_leg = False
        self._accepting = False
        """The gateway was asked to accept: from then on only a hang-up ends the call there."""
        self._transferring = False
        self._ring_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._answerable_s = context.clock.now() + ANSWERABLE_AFTER_S
        self._log = logging.LoggerAdapter(log, {"call_id": self.record.id})

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def ended(self) -> bool:
        return self.state is PhoneState.ENDED

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """Work in progress: waiting for it lets a farewell reach the gateway."""
        return set(self._tasks)

    def describe(self) -> dict[str, Any]:
        """For whoever administers the server: numbers included."""
        record = self.record
        return {
            "id": record.id,
            "call_id": record.call_id,
            "state": self.state.value,
            "direction": record.direction,
            "caller": record.caller,
            "called": record.called,
            "codec": record.codec,
            "started": record.started.isoformat() if record.started else None,
            "answered": record.answered.isoformat() if record.answered else None,
            "ended_by": record.ended_by,
            "sip_code": record.sip_code,
            "reason": record.reason,
        }

    # -- beginning ------------------------------------------------------------------------------

    def take(self, offer: Jsep | None) -> None:
        """Answer an incoming call; without an offer the agent's side makes one."""
        self._spawn(self._take(offer))

    def refuse(self, code: int) -> None:
        """Answer an incoming call with a SIP refusal."""
        self._finish("agent", code, hangup.REASONS.get(code, "refused"), decline=code)

    async def dial(self, uri: str) -> None:
        """Ring a telephone; its events say what comes of it.

        Raises:
            ServerFull, ServerDraining, EngineFailed: no agent could talk.
            GatewayRefused, GatewayUnreachable: the gateway does not call.
            CallConflict: it was hung up meanwhile.
        """
        settings = self._context.settings
        ring_s = settings.ring_limit_s
        asked = False
        try:
            leg = await self._context.agents.offer(self.rule, self, ring_s)
            self._adopt(leg)
            if self.ended or leg.ended:
                raise CallConflict("The call was given up before it was made.")
            body: dict[str, Any] = {
                "request": "call",
                "uri": uri,
                "call_id": self.sip_call_id,
                "autoaccept_reinvites": False,
            }
            if settings.srtp != "off":
                body["srtp"] = f"sdes_{settings.srtp}"
            asked = True
            event = janus_sip.read((await self._handle.ask(body, Jsep("offer", leg.sdp))).data)
            if event.name == "error":
                raise _refused(body, event)
        except RtcAgentError as error:
            self._finish("gateway", None, error.code, tell=asked)
            raise
        loop = asyncio.get_running_loop()
        if self.state is PhoneState.RINGING:
            self._ring_timer = loop.call_later(ring_s, self._give_up_ringing)

    # -- what can be asked of a call ------------------------------------------------------------

    def hang_up(self, reason: EndReason = EndReason.HANGUP) -> None:
        """End the call from this side. Idempotent."""
        self._finish("agent", 200 if self.record.answered else 487, reason.value)

    async def send_key(self, key: str, duration_ms: int = 160) -> None:
        """Press a key for the other side, by SIP INFO.

        Raises:
            CallConflict: nobody has answered yet, or the call is over.
            GatewayRefused, GatewayUnreachable: it was not sent.
        """
        self._require_answered()
        if len(key) != 1 or key not in janus_sip.DTMF_DIGITS:
            raise ValueError(f"{key!r} is no telephone key")
        await self._demand({"request": "dtmf_info", "digit": key, "duration": duration_ms})

    async def hold(self) -> None:
        """Put the telephone on hold: it hears nothing more of the agent, nor the agent of it."""
        self._require_answered()
        await self._demand({"request": "hold", "direction": "inactive"})
        self._set_held(True)

    async def resume(self) -> None:
        """Take the telephone back from hold."""
        self._require_answered()
        await self._demand({"request": "unhold"})
        self._set_held(False)

    async def transfer(self, uri: str) -> None:
        """Send the telephone to another address; this call ends once that one has answered."""
        self._require_answered()
        if janus_sip.parse_uri(uri) is None:
            raise ValueError(f"{uri!r} is no SIP address")
        await self._demand({"request": "transfer", "uri": uri})
        self._transferring = True

    # -- what the gateway tells -----------------------------------------------------------------

    def on_sip(self, event: SipEvent, jsep: Jsep | None) -> None:
        """An event of the plugin on this call's handle."""
        if self.ended or (event.call_id is not None and event.call_id != self.sip_call_id):
            return
        match event.name:
            case "progress" | "accepted":
                self._spawn(self._connect(jsep, picked_up=event.name == "accepted"))
            case "hangup":
                self._on_hangup(event)
            case "updatingcall":
                self._spawn(self._update(jsep))
            case "info":
                press = janus_sip.parse_info(event.text("type"), event.text("content"))
                if press is not None:
                    self._press(press.digit, "info")
            case "dtmf":
                if (signal := event.text("signal")) in tuple(janus_sip.DTMF_DIGITS):
                    self._press(signal, "gateway")
            case "transfer":
                self._decline_transfer(event.number("refer_id"))
            case "notify":
                self._on_transfer_progress(event)
            case "error":
                self._log.warning("the gateway refused something: %s", event.text("error"))

    def on_trickle(self, trickle: Trickle) -> None:
        """A candidate of the gateway's; those that come before the leg wait for it."""
        if self.leg is None:
            self._candidates.append(trickle)
        elif not self.ended:
            self._spawn(self._add_candidate(self.leg, trickle))

    def on_gateway_lost(self) -> None:
        """The gateway was restarted: what it had of the call is gone."""
        self._finish("gateway", None, "gateway_lost", tell=False)

    # -- what the agent's leg tells -------------------------------------------------------------

    def on_leg_ended(self, reason: EndReason) -> None:
        code = 200 if self.record.answered else hangup.refusal(reason)
        self._finish(hangup.party(reason), code, reason.value)

    def on_key(self, key: str) -> None:
        self._press(key, "rtp")

    # -- inside ---------------------------------------------------------------------------------

    async def _take(self, offer: Jsep | None) -> None:
        agents, wait_s = self._context.agents, self._context.settings.agent_limit_s
        try:
            if offer is None:
                leg = await agents.offer(self.rule, self, wait_s)
            else:
                leg = await agents.answer(offer.sdp, self.rule, self, wait_s)
        except ServerFull:
            self.refuse(self._context.settings.full_code)
            return
        except (InvalidOffer, UnsupportedOffer) as error:
            self._log.info("the telephone's offer cannot be used: %s", error)
            self.refuse(488)
            return
        except RtcAgentError as error:
            self._log.warning("no agent for a telephone call: %s", error)
            self.refuse(503)
            return
        self._adopt(leg)
        try:
            async with asyncio.timeout(wait_s):
                await leg.prepared()
        except TimeoutError:
            self._log.warning("the agent was not ready within %g s", wait_s)
            self.refuse(480)
            return
        jsep = Jsep("offer" if offer is None else "answer", leg.sdp)
        body = {"request": "accept", "autoaccept_reinvites": False}
        await self._answerable()
        if self.ended or leg.ended:
            # An ended leg reports itself, with its reason.
            return
        self._accepting = True
        event = janus_sip.read((await self._handle.ask(body, jsep)).data)
        if event.name == "error":
            self._accepting = False
            self._log.warning("the gateway did not accept: %s", event.text("error"))
            self._finish("gateway", 500, "gateway_refused", decline=500)
        elif event.name == "accepted":
            self._picked_up()

    async def _connect(self, jsep: Jsep | None, picked_up: bool) -> None:
        if self.leg is None:
            return
        if jsep is not None and not self._answered_leg:
            self._answered_leg = True
            await self.leg.accept(jsep.sdp)
        elif jsep is not None:
            # The answer to an offer that a re-INVITE asked for.
            self._set_held(direction(jsep.sdp) in ("sendonly", "inactive"))
        if picked_up:
            self._picked_up()

    def _picked_up(self) -> None:
        if self.state is not PhoneState.RINGING or self.leg is None:
            return
        self._stop_ringing()
        self.state = PhoneState.TALKING
        self.record.answered = self._context.wall_time()
        self._log.info("telephone call answered")
        self.leg.start()

    async def _update(self, jsep: Jsep | None) -> None:
        """A re-INVITE: hold, resume, another address, or a session refresh."""
        if self.leg is None:
            return
        self._version += 1
        body = {"request": "update"}
        if jsep is None:
            again = Jsep("offer", offer_again(self.leg.sdp, self._version))
            await self._demand(body, again)
            return
        try:
            update = answer_update(self.leg.sdp, jsep.sdp, self._version)
        except (InvalidOffer, UnsupportedOffer) as error:
            self._log.warning("the telephone changed the call in a way that cannot be: %s", error)
            self._finish("agent", 488, "unsupported_update")
            return
        await self._demand(body, Jsep("answer", update.sdp))
        self._set_held(update.held)

    def _set_held(self, held: bool) -> None:
        if self.leg is None or self.state not in (PhoneState.TALKING, PhoneState.HELD):
            return
        if held is not (self.state is PhoneState.HELD):
            self.state = PhoneState.HELD if held else PhoneState.TALKING
            self.record.holds += held
            self._log.info("telephone call %s", "on hold" if held else "resumed")
            self.leg.set_held(held)

    def _press(self, key: str, source: KeySource) -> None:
        if self.leg is None or self.ended:
            return
        if self._keys.push(key, source, self._context.clock.now()):
            self.record.keys += 1
            self.leg.press(key)

    def _on_hangup(self, event: SipEvent) -> None:
        code = event.number("code")
        if self.record.answered is None:
            otherwise = "hangup" if self._accepting else "not_answered"
            reason = hangup.REASONS.get(code or 0, otherwise)
            self._finish("phone", code, reason, tell=False)
        else:
            self._finish("phone", 200, EndReason.HANGUP.value, tell=False)

    def _decline_transfer(self, refer_id: int | None) -> None:
        """A telephone may not send the agent elsewhere."""
        if refer_id is not None:
            self._spawn(
                self._handle.tell({"request": "decline", "refer_id": refer_id, "code": 603})
            )

    def _on_transfer_progress(self, event: SipEvent) -> None:
        kind = event.text("content-type") or "message/sipfrag"
        status = janus_sip.sipfrag_status(kind, event.text("content"))
        if status is None or not self._transferring or status < 200:
            return
        self._transferring = False
        if status < 300:
            self._finish("agent", 200, "transferred")
        else:
            self._log.info("the transfer failed with SIP %d; the call goes on", status)

    def _give_up_ringing(self) -> None:
        if self.state is PhoneState.RINGING:
            self._finish("agent", 487, "not_answered")

    def _adopt(self, leg: AgentLeg) -> None:
        self.leg = leg
        self.record.call_id = leg.call_id
        if self.ended:
            leg.end(EndReason.PEER_CLOSED)
            return
        for trickle in self._candidates:
            self._spawn(self._add_candidate(leg, trickle))
        self._candidates.clear()

    async def _add_candidate(self, leg: AgentLeg, trickle: Trickle) -> None:
        try:
            await leg.add_candidate(trickle.candidate, trickle.sdp_mid, trickle.sdp_mline_index)
        except InvalidRequest as error:
            self._log.info("a candidate of the gateway is of no use: %s", error)

    async def _demand(self, body: dict[str, Any], jsep: Jsep | None = None) -> None:
        """A request whose refusal is an error."""
        event = janus_sip.read((await self._handle.ask(body, jsep)).data)
        if event.name == "error":
            raise _refused(body, event)

    def _require_answered(self) -> None:
        if self.state not in (PhoneState.TALKING, PhoneState.HELD):
            raise CallConflict(f"The telephone call is {self.state.value}, not answered.")

    def _finish(
        self,
        by: Party,
        code: int | None,
        reason: str,
        *,
        tell: bool = True,
        decline: int | None = None,
    ) -> None:
        """End the call on both sides and write its record; only the first call of it counts.

        Args:
            tell: the gateway does not know yet.
            decline: SIP answer for an incoming call that still rings; `code` if left out.
        """
        if self.ended:
            return
        rang, self.state = self.state is PhoneState.RINGING, PhoneState.ENDED
        self._stop_ringing()
        record = self.record
        record.ended = self._context.wall_time()
        record.ended_by, record.sip_code, record.reason = by, code, reason
        if self.leg is not None:
            report = self.leg.report()
            record.codec, record.quality = report.codec, report.quality
            self.leg.end(hangup.leg_reason(by, reason))
        if tell:
            declining = rang and record.direction == "incoming" and not self._accepting
            self._spawn(self._part(declining, decline or code or 480))
        self._context.record(record)
        self._context.on_ended(self)

    async def _part(self, declining: bool, code: int) -> None:
        if declining:
            await self._answerable()
            body: dict[str, Any] = {"request": "decline", "code": code}
            if code == 503:
                body["headers"] = {"Retry-After": "5"}
        else:
            body = {"request": "hangup"}
        await self._handle.tell(body)

    async def _answerable(self) -> None:
        await asyncio.sleep(max(0.0, self._answerable_s - self._context.clock.now()))

    def _stop_ringing(self) -> None:
        if self._ring_timer is not None:
            self._ring_timer.cancel()
            self._ring_timer = None

    def _spawn(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            try:
                await work
            except (GatewayRefused, GatewayUnreachable) as error:
                self._log.warning("%s", error)
                if not self.ended and self.state is PhoneState.RINGING:
                    self._finish("gateway", None, error.code)
            except RtcAgentError as error:
                self._log.warning("%s", error)
                self._finish("gateway", 488, error.code)
            except Exception:
                self._log.exception("a telephone call failed; only it ends")
                self._finish("gateway", 500, "internal_error")

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _refused(body: dict[str, Any], event: SipEvent) -> GatewayRefused:
    """The gateway's words, without the number that it repeats: that is not for logs."""
    words = event.text("error").strip()
    if uri := body.get("uri"):
        words = words.replace(uri, "that address")
    return GatewayRefused(
        f"The telephone gateway refused {body['request']}: {words}.",
        gateway_code=event.number("code") or 0,
    )
