"""What a call tells its caller and what the caller may ask, whatever protocol carries it.

A `Dialect` turns the one into messages and messages into the other; it does no I/O, so the same
class serves a data channel, a WebSocket and a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

FRAME_MS = 80
CONFIGURE_FRAMES = 25
"""Two seconds: how long a call may still be given another voice or persona."""
Who = Literal["caller", "agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEvent:
    """Something that happened in a call."""

    frame: int = 0
    """80 ms frames since the call went live; never goes back from one event to the next."""

    @property
    def t_ms(self) -> int:
        """The same moment in milliseconds of the call."""
        return self.frame * FRAME_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(CallEvent):
    """The agent hears and is heard from now on."""

    call_id: str
    agent: str
    description: str
    voice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(CallEvent):
    """A piece of what the agent says, to be appended to what came before."""

    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech(CallEvent):
    """Somebody began or ceased to speak."""

    who: Who
    speaking: bool
    duration_ms: int
    """How long they spoke; 0 when they begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(CallEvent):
    """Something a person should know: a stable code, plain words, and figures."""

    code: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(CallEvent):
    """Media quality so far."""

    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels(CallEvent):
    """How loud both are just now, 0 … 1 (−60 dBFS and below … full scale). Worth nothing later."""

    caller: float
    agent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(CallEvent):
    """The call is over; nothing follows."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetMuted:
    """The caller's microphone is to be unheard, or heard again."""

    muted: bool


@dataclass(frozen=True, slots=True)
class Dtmf:
    """Keys of a telephone keypad, in order."""

    digits: str


@dataclass(frozen=True, slots=True)
class FlushPlayout:
    """Forget agent audio that has not been played yet."""


@dataclass(frozen=True, slots=True)
class Configure:
    """Begin again with another voice or persona; None keeps what there is.

    Only while the conversation is younger than `CONFIGURE_FRAMES`: what an agent has begun to be
    cannot be changed under it.
    """

    voice: str | None = None
    persona: str | None = None


@dataclass(frozen=True, slots=True)
class Hangup:
    """The caller is done."""


Command = SetMuted | Dtmf | FlushPlayout | Configure | Hangup


@dataclass(frozen=True, slots=True)
class Received:
    """What one message of the caller comes to."""

    commands: Sequence[Command] = ()
    replies: Sequence[str] = ()
    """Messages that answer it, ready to be sent."""


class Dialect(Protocol):
    """One protocol on one channel of one call. Pure: state, but no I/O and no clock."""

    def encode(self, event: CallEvent) -> Sequence[str]:
        """The messages that tell of this event; empty where the protocol has no word for it."""
        ...

    def decode(self, message: str, frame: int) -> Received:
        """What a message asks for. Never raises: what is not understood is answered in the
        protocol's own way.

        Args:
            frame: where the call is now, in 80 ms frames.
        """
        ...

    def reopen(self) -> Sequence[str]:
        """What goes first over another connection of the same call, before what waited for it."""
        ...
