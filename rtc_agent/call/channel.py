"""A call's channels: what happens in the call, told in each channel's protocol."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence

from rtc_agent.call.transport import Transport
from rtc_agent.protocol.events import CallEvent, Command, Dialect, Levels, Ready

QUEUE_LIMIT = 256
"""Messages kept for a channel that is not open yet or whose peer does not read."""

Dialects = Mapping[str, Callable[[], Dialect]]
"""Channel label → the protocol spoken there."""


class Channel:
    """One open channel: a protocol, and messages that wait until they can be sent.

    When `QUEUE_LIMIT` wait, the oldest are dropped and counted.
    """

    def __init__(self, label: str, dialect: Dialect, transport: Transport) -> None:
        self._label = label
        self._dialect = dialect
        self._transport = transport
        self._waiting: collections.deque[str] = collections.deque(maxlen=QUEUE_LIMIT)
        self.dropped = 0

    def move(self, transport: Transport) -> None:
        """The same channel over another connection: what waits goes out there."""
        self._transport = transport
        for message in self._dialect.reopen():
            transport.send(self._label, message)
        self.flush()

    def tell(self, event: CallEvent) -> None:
        if not (self._waiting and isinstance(event, Levels)):
            self._send(self._dialect.encode(event))

    def receive(self, message: str, frame: int) -> Sequence[Command]:
        """Answer a message; what it asks of the call is returned."""
        received = self._dialect.decode(message, frame)
        self._send(received.replies)
        return received.commands

    def flush(self) -> None:
        """Hand over what waits, as far as the channel takes it."""
        while self._waiting and self._transport.send(self._label, self._waiting[0]):
            self._waiting.popleft()

    def _send(self, messages: Sequence[str]) -> None:
        for message in messages:
            if len(self._waiting) == QUEUE_LIMIT:
                self.dropped += 1
            self._waiting.append(message)
        self.flush()


class Channels:
    """All channels of a call. What happens before the first one opens is kept for it, in order and
    up to `QUEUE_LIMIT` events; a later one begins with the call's `Ready`. One that opens again,
    over a new connection, goes on as it was after another `Ready`."""

    def __init__(self, dialects: Dialects) -> None:
        self._dialects = dialects
        self._channels: dict[str, Channel] = {}
        self._before: collections.deque[CallEvent] = collections.deque(maxlen=QUEUE_LIMIT)
        self._ready: Ready | None = None
        self._dropped_before = 0

    @property
    def dropped(self) -> int:
        """Messages and events that nobody could take in time."""
        return self._dropped_before + sum(c.dropped for c in self._channels.values())

    def open(self, label: str, transport: Transport) -> None:
        """A channel is there, whichever side made it; labels of no known protocol are ignored."""
        if label not in self._dialects:
            return
        if (known := self._channels.get(label)) is not None:
            known.move(transport)
            if self._ready is not None:
                known.tell(self._ready)
            return
        channel = Channel(label, self._dialects[label](), transport)
        if not self._channels:
            for event in self._before:
                channel.tell(event)
            self._before.clear()
        elif self._ready is not None:
            channel.tell(self._ready)
        self._channels[label] = channel

    def tell(self, event: CallEvent) -> None:
        if isinstance(event, Ready):
            self._ready = event
        if not self._channels and not isinstance(event, Levels):
            self._dropped_before += len(self._before) == QUEUE_LIMIT
            self._before.append(event)
        for channel in self._channels.values():
            channel.tell(event)

    def receive(self, label: str, message: str, frame: int) -> Sequence[Command]:
        """What a message asks of the call; nothing if the label is not one of ours."""
        channel = self._channels.get(label)
        return () if channel is None else channel.receive(message, frame)

    def flush(self) -> None:
        for channel in self._channels.values():
            channel.flush()
