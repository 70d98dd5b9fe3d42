"""Agent legs in this process: a call of the registry, and a peer connection to the gateway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from rtc_agent.call.call import Call
from rtc_agent.call.limits import CallLimits
from rtc_agent.call.registry import CallRegistry
from rtc_agent.call.state import EndReason
from rtc_agent.call.transport import Transport, TransportEvents, TransportStats
from rtc_agent.clock import Clock
from rtc_agent.engine.client import FrameSource
from rtc_agent.engine.stepper import Pcm, SessionSpec
from rtc_agent.errors import ConfigError, InvalidPersona, UnknownVoice
from rtc_agent.protocol.telephone_event import KeyDetector
from rtc_agent.telephony.agent_side import AgentLeg, LegOwner, LegReport
from rtc_agent.telephony.config import DialRule

CONNECT_MARGIN_S = 15.0
"""How long media may take once the telephone is off the hook."""


class TelephoneEvents(Protocol):
    """Takes telephone-event payloads with their RTP timestamps."""

    def __call__(self, payload: bytes, timestamp: int) -> None: ...


class PhonePeer(Transport, Protocol):
    """A peer connection to the gateway."""

    @property
    def codec_name(self) -> str | None:
        """RTP name of the codec agreed on; None before it is."""
        ...

    async def accept(self, answer_sdp: str) -> None: ...

    async def add_candidate(
        self, candidate: str | None, sdp_mid: str | None, sdp_mline_index: int | None
    ) -> None: ...


class PeerFactory(Protocol):
    """Makes peers; what they report goes to `events`, telephone keys to `on_telephone_event`."""

    async def answer(
        self, offer_sdp: str, events: TransportEvents, on_telephone_event: TelephoneEvents
    ) -> tuple[PhonePeer, str]:
        """A peer that answers an offer; returns it with the answer."""
        ...

    async def offer(
        self, events: TransportEvents, on_telephone_event: TelephoneEvents
    ) -> tuple[PhonePeer, str]:
        """A peer that makes an offer; returns it with the offer."""
        ...


class LocalAgents:
    """Legs of the calls of this process."""

    def __init__(self, registry: CallRegistry, peers: PeerFactory, clock: Clock) -> None:
        self._registry = registry
        self._peers = peers
        self._clock = clock

    def check(self, rule: DialRule) -> None:
        engine = self._registry.engine
        if rule.agent is not None and rule.agent != engine.info.agent:
            raise ConfigError(
                f"The dial plan gives {rule.number!r} the agent {rule.agent!r}, but "
                f"{engine.info.agent!r} runs here."
            )
        try:
            engine.check(_spec(rule))
        except (UnknownVoice, InvalidPersona) as error:
            raise ConfigError(f"The dial plan's rule for {rule.number!r}: {error}") from error

    async def answer(
        self, offer_sdp: str, rule: DialRule, owner: LegOwner, wait_s: float
    ) -> AgentLeg:
        return await self._place(rule, owner, wait_s, offer_sdp)

    async def offer(self, rule: DialRule, owner: LegOwner, wait_s: float) -> AgentLeg:
        return await self._place(rule, owner, wait_s, None)

    def facts(self) -> dict[str, Any]:
        return {"agent": self._registry.engine.info.agent}

    async def _place(
        self, rule: DialRule, owner: LegOwner, wait_s: float, offer_sdp: str | None
    ) -> AgentLeg:
        made: list[LocalLeg] = []

        async def connect(events: TransportEvents) -> tuple[Transport, str]:
            leg = LocalLeg(owner, events, self._clock)
            if offer_sdp is not None:
                peer, sdp = await self._peers.answer(offer_sdp, leg, leg.on_telephone_event)
            else:
                peer, sdp = await self._peers.offer(leg, leg.on_telephone_event)
            leg.connect(peer, sdp)
            made.append(leg)
            return leg.transport, sdp

        limits = self._limits(rule, CONNECT_MARGIN_S + wait_s)
        call, _ = await self._registry.place(_spec(rule), connect, limits)
        made[0].call = call
        return made[0]

    def _limits(self, rule: DialRule, connect_s: float) -> CallLimits:
        limits = replace(self._registry.limits, connect_s=connect_s)
        if rule.call_limit_s is not None:
            limits = replace(limits, call_s=rule.call_limit_s)
        if rule.idle_limit_s is not None:
            limits = replace(limits, idle_s=rule.idle_limit_s)
        return limits


class LocalLeg:
    """One call of the registry as a telephone call's `AgentLeg`.

    It stands between peer and call: media may flow before the telephone is off the hook, but the
    call is told of it only then, so that no greeting goes into a ringing telephone.
    """

    call: Call
    transport: PhoneTransport

    def __init__(self, owner: LegOwner, events: TransportEvents, clock: Clock) -> None:
        self._owner = owner
        self._events = events
        self._clock = clock
        self._keys = KeyDetector()
        self._started = False
        self._connected = False
        self._sdp = ""

    def connect(self, peer: PhonePeer, sdp: str) -> None:
        self._sdp = sdp
        self.transport = PhoneTransport(peer, self._clock, self._on_transport_closed)

    # AgentLeg

    @property
    def call_id(self) -> str:
        return self.call.ids.public

    @property
    def sdp(self) -> str:
        return self._sdp

    @property
    def ended(self) -> bool:
        return self.call.reason is not None

    async def prepared(self) -> None:
        await self.call.prepared.wait()

    async def accept(self, answer_sdp: str) -> None:
        await self.transport.peer.accept(answer_sdp)

    async def add_candidate(
        self, candidate: str | None, sdp_mid: str | None, sdp_mline_index: int | None
    ) -> None:
        await self.transport.peer.add_candidate(candidate, sdp_mid, sdp_mline_index)

    def start(self) -> None:
        if not self._started:
            self._started = True
            if self._connected:
                self._events.on_connected()

    def press(self, key: str) -> None:
        self.call.press(key)

    def set_held(self, held: bool) -> None:
        self.transport.resumed_s = self._clock.now()
        self.call.set_held(held)

    def end(self, reason: EndReason) -> None:
        self.call.end(reason)

    def report(self) -> LegReport:
        peer = self.transport.peer
        return LegReport(codec=peer.codec_name, quality=peer.stats().as_dict())

    # TransportEvents, from the peer

    def on_connected(self) -> None:
        self._connected = True
        if self._started:
            self._events.on_connected()

    def on_closed(self, reason: str) -> None:
        self._events.on_closed(reason)

    def on_channel(self, label: str) -> None:
        """A gateway makes no channels."""

    def on_message(self, label: str, message: str) -> None:
        """Nor does it send messages."""

    # What else the peer and the transport report

    def on_telephone_event(self, payload: bytes, timestamp: int) -> None:
        if (key := self._keys.push(payload, timestamp)) is not None:
            self._owner.on_key(key)

    def _on_transport_closed(self) -> None:
        self._owner.on_leg_ended(self.call.reason or EndReason.HANGUP)


class PhoneTransport:
    """The peer, as the call sees it: its closing tells the telephone's side."""

    def __init__(self, peer: PhonePeer, clock: Clock, on_closed: Callable[[], None]) -> None:
        self.peer = peer
        self.resumed_s = clock.now()
        """When a hold began or ended; a peer's silence before it means nothing."""
        self._clock = clock
        self._on_closed = on_closed
        self._closed = False

    @property
    def source(self) -> FrameSource:
        return self.peer.source

    def play(self, pcm: Pcm) -> None:
        self.peer.play(pcm)

    def flush(self) -> None:
        self.peer.flush()

    def send(self, label: str, message: str) -> bool:
        return False

    def silent_s(self) -> float:
        return min(self.peer.silent_s(), self._clock.now() - self.resumed_s)

    def stats(self) -> TransportStats:
        return self.peer.stats()

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._on_closed()
        await self.peer.aclose()


def _spec(rule: DialRule) -> SessionSpec:
    return SessionSpec(voice=rule.voice, persona=rule.persona)
