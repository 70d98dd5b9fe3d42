"""The Moshi WebSocket protocol: binary messages whose first byte is their kind.

The server greets with a handshake once it can hear; then each side sends one continuous Ogg-Opus
stream, 24 kHz mono, and the server pieces of text. On a call's message channel a message is the
same as on the wire: a character of the kind, then the text.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rtc_agent.protocol import events
from rtc_agent.protocol.events import CallEvent, Received

LABEL = "moshi"
"""The message channel's label inside a call; nothing of it is on the wire."""


class Kind(enum.IntEnum):
    """The first byte of a message."""

    HANDSHAKE = 0
    AUDIO = 1
    TEXT = 2
    CONTROL = 3
    METADATA = 4
    ERROR = 5
    PING = 6


HANDSHAKE = bytes([Kind.HANDSHAKE]) + bytes(8)
"""Protocol 0, model 0, as two little-endian words; clients read no further than the first byte."""

_ENDINGS = ("hangup", "peer_closed", "connection_failed", "peer_vanished")
"""After these nobody is there to be told."""


class MoshiDialect:
    """The text side of one call; the sound is the transport's."""

    def __init__(self, metadata: Callable[[], Mapping[str, Any]] | None = None) -> None:
        """
        Args:
            metadata: told after every handshake, to a client that asked for it.
        """
        self._metadata = metadata
        self._greeted = False

    def encode(self, event: CallEvent) -> Sequence[str]:
        match event:
            case events.Ready() if not self._greeted:
                self._greeted = True
                return self._greeting()
            case events.Text(delta=delta):
                return [chr(Kind.TEXT) + delta]
            case events.Ended(reason=reason, message=message) if reason not in _ENDINGS:
                return [chr(Kind.ERROR) + message]
        return []

    def reopen(self) -> Sequence[str]:
        """Clients wait for a handshake on every connection."""
        return self._greeting() if self._greeted else ()

    def _greeting(self) -> Sequence[str]:
        metadata = [] if self._metadata is None else [json.dumps(self._metadata())]
        return [HANDSHAKE.decode(), *(chr(Kind.METADATA) + each for each in metadata)]

    def decode(self, message: str, frame: int) -> Received:
        """Control and pings mean nothing to an agent without turns; they are let go."""
        return Received()
