"""A call's text channel: numbers its messages and keeps them until the channel can take them."""

from __future__ import annotations

import collections
from typing import Any

from rtc_agent.call.transport import Transport
from rtc_agent.engine.stepper import FRAME_S
from rtc_agent.protocol import native

QUEUE_LIMIT = 256
"""Messages kept for a channel that is not open yet or whose peer does not read."""


class TextChannel:
    """The native text channel of one call.

    Messages wait, in order, until the data channel is there, whichever side made it and however
    late; the oldest are dropped when `QUEUE_LIMIT` wait, which the gap in `seq` shows.
    """

    def __init__(self) -> None:
        self._transport: Transport | None = None
        self._waiting: collections.deque[str] = collections.deque(maxlen=QUEUE_LIMIT)
        self._seq = 0
        self._frame = 0
        self.dropped = 0

    @property
    def frame(self) -> int:
        return self._frame

    def reach(self, frame: int) -> None:
        """Messages from now on belong to that frame of the call."""
        self._frame = max(self._frame, frame)

    def open(self, transport: Transport) -> None:
        """The data channel is there."""
        self._transport = transport
        self.flush()

    def send(self, type_: str, **fields: Any) -> None:
        """Send a message, or keep it until it can be sent."""
        if len(self._waiting) == QUEUE_LIMIT:
            self.dropped += 1
        t_ms = round(self._frame * FRAME_S * 1_000)
        self._waiting.append(native.encode(type_, self._seq, self._frame, t_ms, fields))
        self._seq += 1
        self.flush()

    def flush(self) -> None:
        """Hand over what waits, as far as the channel takes it."""
        if self._transport is None:
            return
        while self._waiting and self._transport.send(native.LABEL, self._waiting[0]):
            self._waiting.popleft()
