"""The seam between a telephone call and the agent that talks on it: here, or on another server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from rtc_agent.call.state import EndReason
from rtc_agent.telephony.config import DialRule


class LegOwner(Protocol):
    """What a leg tells the telephone call it belongs to. Called on the event loop; must return at
    once."""

    def on_leg_ended(self, reason: EndReason) -> None:
        """The agent's side is over. Once per leg; nothing follows."""
        ...

    def on_key(self, key: str) -> None:
        """A key of the telephone, told within the audio (RFC 4733)."""
        ...


@dataclass(frozen=True, slots=True)
class LegReport:
    """What is left of a leg, for the call's record."""

    codec: str | None = None
    quality: dict[str, float] = field(default_factory=dict)


class AgentLeg(Protocol):
    """The agent's end of one telephone call."""

    @property
    def call_id(self) -> str:
        """The agent call's public id."""
        ...

    @property
    def sdp(self) -> str:
        """The description for the gateway: an answer, or the offer that the leg was asked for."""
        ...

    @property
    def ended(self) -> bool:
        """The agent's side is over, though `on_leg_ended` may be yet to come."""
        ...

    async def prepared(self) -> None:
        """Return once the agent could speak, or the leg has ended."""
        ...

    async def accept(self, answer_sdp: str) -> None:
        """Take the gateway's answer to this leg's offer.

        Raises:
            InvalidOffer, UnsupportedOffer: it cannot be used.
        """
        ...

    async def add_candidate(
        self, candidate: str | None, sdp_mid: str | None, sdp_mline_index: int | None
    ) -> None:
        """A candidate of the gateway's that came after its description."""
        ...

    def start(self) -> None:
        """The telephone is off the hook: the agent may speak as soon as media flows."""
        ...

    def press(self, key: str) -> None:
        """A key that was told outside the audio, or within it."""
        ...

    def set_held(self, held: bool) -> None:
        """The telephone put the call on hold, or took it back."""
        ...

    def end(self, reason: EndReason) -> None:
        """The telephone's side is over. Idempotent; `on_leg_ended` follows if it has not come."""
        ...

    def report(self) -> LegReport: ...


class AgentSide(Protocol):
    """Where legs come from."""

    def check(self, rule: DialRule) -> None:
        """Refuse a rule that could never be served.

        Raises:
            ConfigError: another agent runs here than the rule wants, or it lacks the voice.
        """
        ...

    async def answer(
        self, offer_sdp: str, rule: DialRule, owner: LegOwner, wait_s: float
    ) -> AgentLeg:
        """A leg that answers the gateway's offer.

        Args:
            wait_s: how long the telephone may ring before media can flow.

        Raises:
            ServerFull, ServerDraining, EngineFailed: not now.
            InvalidOffer, UnsupportedOffer: not like this.
        """
        ...

    async def offer(self, rule: DialRule, owner: LegOwner, wait_s: float) -> AgentLeg:
        """A leg that makes the offer itself.

        Args:
            wait_s: how long the telephone may ring before media can flow.

        Raises:
            ServerFull, ServerDraining, EngineFailed: not now.
        """
        ...

    def facts(self) -> dict[str, Any]:
        """Public facts, for a person: which agent answers."""
        ...
