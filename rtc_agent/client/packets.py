"""What arrived: every RTP packet with the moment it came, put in the sender's order."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReceivedPacket:
    """One RTP packet as it came off the network."""

    arrival_s: float
    """On the caller's monotonic clock."""
    sequence: int
    """RTP sequence number without its wraps."""
    timestamp: int
    """RTP timestamp without its wraps, in units of the codec's RTP clock."""
    payload: bytes


class Unwrapper:
    """Turns a counter of so many bits into one that does not wrap, in any order within half."""

    def __init__(self, bits: int) -> None:
        self._size = 1 << bits
        self._last: int | None = None

    def unwrap(self, value: int) -> int:
        if self._last is None:
            # One size up, so that packets that overtook the first one do not go below zero.
            self._last = value + self._size
            return self._last
        half = self._size // 2
        step = (value - self._last + half) % self._size - half
        unwrapped = self._last + step
        self._last = max(self._last, unwrapped)
        return unwrapped


class PacketLog:
    """All packets of one stream, duplicates dropped. Payloads are kept: about 20 MB an hour.

    They are kept as plain numbers and bytes: as many objects would be gone through at every full
    garbage collection, which holds up all calls of the process for longer and longer.
    """

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        """By sequence number, where in the order of arrival."""
        self._arrivals_s = array("d")
        self._moments = array("q")
        self._ends = array("q")
        self._payloads = bytearray()
        self._sequences = Unwrapper(16)
        self._timestamps = Unwrapper(32)
        self.duplicates = 0
        self.last_arrival_s: float | None = None
        self.end_timestamp: int | None = None
        """The newest packet's unwrapped timestamp."""

    def __len__(self) -> int:
        return len(self._place)

    def add(self, arrival_s: float, sequence: int, timestamp: int, payload: bytes) -> None:
        """Note a packet with its 16-bit sequence number and 32-bit timestamp."""
        self.last_arrival_s = arrival_s
        number = self._sequences.unwrap(sequence)
        if number in self._place:
            self.duplicates += 1
            return
        moment = self._timestamps.unwrap(timestamp)
        self._place[number] = len(self._ends)
        self._arrivals_s.append(arrival_s)
        self._moments.append(moment)
        self._payloads += payload
        self._ends.append(len(self._payloads))
        if self.end_timestamp is None or moment > self.end_timestamp:
            self.end_timestamp = moment

    def in_order(self) -> list[ReceivedPacket]:
        """The packets by sequence number."""
        return [self._packet(number, place) for number, place in sorted(self._place.items())]

    def _packet(self, number: int, place: int) -> ReceivedPacket:
        begin = self._ends[place - 1] if place else 0
        payload = bytes(self._payloads[begin : self._ends[place]])
        return ReceivedPacket(self._arrivals_s[place], number, self._moments[place], payload)


@dataclass(frozen=True, slots=True)
class SenderLine:
    """The straight line between the sender's timestamps and the caller's clock.

    It touches the earliest arrivals: a packet on the line was not held up at all.
    """

    clock_rate: int
    offset_s: float

    @classmethod
    def through(
        cls, packets: list[ReceivedPacket], clock_rate: int, around_s: float
    ) -> SenderLine | None:
        """The line at a moment, from the arrivals within 2 s of it; None if there were none.

        Only near ones count: over a long call the two clocks drift apart.
        """
        near = [p for p in packets if abs(p.arrival_s - around_s) <= 2]
        if not near:
            return None
        return cls(clock_rate, min(p.arrival_s - p.timestamp / clock_rate for p in near))

    def timestamp_at(self, when_s: float) -> int:
        """The timestamp that falls on a moment of the caller's clock."""
        return round((when_s - self.offset_s) * self.clock_rate)


class Arrivals:
    """When the packet that holds a given timestamp came."""

    def __init__(self, packets: list[ReceivedPacket]) -> None:
        self._packets = sorted(packets, key=lambda p: p.timestamp)
        self._timestamps = [p.timestamp for p in self._packets]

    def holding(self, timestamp: int, longest: int) -> ReceivedPacket | None:
        """The last packet at or before `timestamp` and less than `longest` before it."""
        place = bisect_right(self._timestamps, timestamp) - 1
        if place < 0 or timestamp - self._timestamps[place] >= longest:
            return None
        return self._packets[place]
