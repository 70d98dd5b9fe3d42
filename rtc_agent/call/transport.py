"""The seam between a call and the way its audio and messages travel: a WebRTC peer, a WebSocket."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol, runtime_checkable

from rtc_agent.engine.client import FrameSource
from rtc_agent.engine.stepper import Pcm


class TransportEvents(Protocol):
    """What a transport tells its call. Called on the event loop; must return at once."""

    def on_connected(self) -> None:
        """Media can flow both ways. Once per transport."""
        ...

    def on_closed(self, reason: str) -> None:
        """The peer closed the connection, or it failed. `reason` is `peer_closed` or
        `connection_failed`. Once per transport; not called after `aclose`."""
        ...

    def on_channel(self, label: str) -> None:
        """A data channel of that label is open, whichever side made it."""
        ...

    def on_message(self, label: str, message: str) -> None:
        """A text message of at most 64 KiB arrived on that channel."""
        ...


@dataclass(frozen=True, slots=True)
class TransportStats:
    """Media quality so far, cumulative."""

    packets_received: int = 0
    packets_lost: int = 0
    concealed_ms: float = 0.0
    dropped_ms: float = 0.0
    """Caller audio thrown away (overload, backlog)."""
    packets_sent: int = 0
    underruns: int = 0
    """Times the agent's audio was not there when a packet was due."""
    jitter_ms: float = 0.0
    receive_buffer_ms: float = 0.0
    playout_buffer_ms: float = 0.0

    def as_dict(self) -> dict[str, float]:
        """For JSON: names and rounded numbers."""
        return {name: round(value, 1) for name, value in asdict(self).items()}


class Transport(Protocol):
    """One caller's connection."""

    @property
    def source(self) -> FrameSource:
        """Caller audio, frame by frame."""
        ...

    def play(self, pcm: Pcm) -> None:
        """Queue agent audio, 24 kHz mono, any length; bounded."""
        ...

    def flush(self) -> None:
        """Forget queued agent audio: silence within 40 ms."""
        ...

    def send(self, label: str, message: str) -> bool:
        """Send on an open channel. False if there is no such channel or its buffer is full; the
        message is then not sent."""
        ...

    def silent_s(self) -> float:
        """Seconds since anything at all (media, RTCP, data) arrived from the peer."""
        ...

    def stats(self) -> TransportStats: ...

    async def aclose(self) -> None:
        """Close the connection; bounded in time; idempotent."""
        ...


@runtime_checkable
class Reviving(Transport, Protocol):
    """A transport that may carry packets again after none arrived for long."""

    @property
    def connected(self) -> bool:
        """Media has been able to flow, and the connection is not closed."""
        ...


@runtime_checkable
class RenegotiatingTransport(Transport, Protocol):
    """A transport whose caller may offer anew over the connection that there is."""

    async def renegotiate(self, offer: str) -> str:
        """The answer to another offer for the same media over the same transport.

        Raises:
            InvalidOffer, UnsupportedOffer: it cannot be answered at all.
            CallConflict: it asks for something else than was agreed on.
        """
        ...


@dataclass(frozen=True, slots=True)
class IceSession:
    """What one side of an ICE session tells the other."""

    ufrag: str
    password: str
    candidates: tuple[str, ...]
    """As SDP has them, without the `candidate:` prefix; no more follow."""
    mid: str
    """Of the media section that they belong to; every other one shares its transport."""


@runtime_checkable
class RestartingTransport(Transport, Protocol):
    """A transport whose network path can be sought anew, under the same encryption."""

    async def restart_ice(self, ufrag: str, password: str) -> IceSession:
        """This side of a new ICE session with the peer's new credentials. Sound goes on over the
        path that there is until the new one stands; candidates added from now on are the new one's.

        Raises:
            CallConflict: the connection is closed.
            UnsupportedOffer: it cannot be restarted now; it goes on as it was.
        """
        ...


@runtime_checkable
class TrickleTransport(Transport, Protocol):
    """A transport that takes ICE candidates after the offer (RFC 8838)."""

    async def add_candidate(
        self, candidate: str | None, sdp_mid: str | None, sdp_mline_index: int | None
    ) -> None:
        """Add one candidate, with or without its `candidate:` prefix; None or empty ends them.
        A kind this side cannot use is ignored.

        Raises:
            InvalidRequest: it is no candidate at all, or belongs to no media section.
        """
        ...
