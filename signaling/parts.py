"""What the application is made of; whoever starts it puts these together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web

from rtc_agent.call.recordings import Recordings
from rtc_agent.call.registry import CallRegistry
from rtc_agent.call.transport import Transport, TransportEvents
from rtc_agent.clock import Clock, MonotonicClock
from rtc_agent.config import IceServer
from rtc_agent.media.relay_health import RelayState
from rtc_agent.protocol.sdp import Flow
from rtc_agent.telephony.phone_line import LineStatus
from signaling.guard import GuardRules
from signaling.metrics import Metrics


class Answer(Protocol):
    """Makes the transport that answers an SDP offer."""

    async def __call__(
        self, sdp: str, events: TransportEvents, flow: Flow = Flow.CALL
    ) -> tuple[Transport, str]:
        """The transport, with the SDP answer.

        Raises:
            InvalidOffer, UnsupportedOffer: it cannot be answered.
        """
        ...


class SocketTransport(Transport, Protocol):
    """A transport whose messages come and go over a WebSocket that somebody else holds."""

    def open(self) -> None:
        """The WebSocket is there."""
        ...

    def receive(self, message: bytes) -> None:
        """A message came. Raises InvalidRequest if the connection is of no use."""
        ...

    def lost(self, reason: str) -> None:
        """The WebSocket is gone: `peer_closed` or `connection_failed`."""
        ...


MakeSocketTransport = Callable[
    [TransportEvents, Callable[[bytes], bool], Callable[[], None]], SocketTransport
]
"""Takes the events, a function that posts a message and one that closes the WebSocket."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may do what from outside."""

    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may use this server, beside its own; `*` is every one."""
    whip_strict: bool = False
    """WHIP as RFC 9725 has it: callers are heard and hear nothing."""
    listen_token: str = ""
    """Who brings it may listen in on calls, beside those whose key is for that."""
    rules: GuardRules = field(default_factory=GuardRules)
    """Keys and limits."""
    token_secret: bytes = b""
    """What client secrets are signed with; empty: something that nobody else has."""
    wall: Callable[[], float] = time.time
    """Seconds since 1970, by which client secrets expire."""


@dataclass(slots=True)
class ServerParts:
    """Everything that the routes need."""

    registry: CallRegistry
    answer: Answer
    ice_servers: list[IceServer]
    socket_transport: MakeSocketTransport | None = None
    """For calls over a WebSocket; without it there are none."""
    access: Access = field(default_factory=Access)
    clock: Clock = field(default_factory=MonotonicClock)
    metrics: Metrics = field(default_factory=Metrics)
    recordings: Recordings | None = None
    """Where calls whose callers consent are recorded; without it none is."""
    phone_status: Callable[[], LineStatus] | None = None
    """How the phone line is doing, where there is one."""
    relays: Callable[[], Mapping[str, RelayState]] = dict
    """How the TURN relays and STUN servers that this side asks do, by address."""
    issue_ice: Callable[[str], list[IceServer]] | None = None
    """ICE servers with credentials made for a user, where they are made."""

    def why_not_ready(self) -> str:
        """Why calls cannot be taken; empty when they can. A full server is ready, only busy."""
        if self.registry.draining:
            return "The server is being stopped."
        detail = self.registry.engine.status().detail
        if not detail and self.phone_status is not None:
            detail = self.phone_status().detail
        return detail

    def ice_for(self, user: str) -> list[IceServer]:
        """The ICE servers as somebody may use them from now on."""
        return self.ice_servers if self.issue_ice is None else self.issue_ice(user or "caller")


PARTS = web.AppKey("parts", ServerParts)
