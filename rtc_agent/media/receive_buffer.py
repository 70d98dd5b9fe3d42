"""Packets of one caller, placed on a timeline by their RTP timestamps.

The timeline counts samples at 24 kHz. A reader moves along it at its own pace and asks for what
comes next: a packet, a stretch that was lost, one in which the sender said nothing, or nothing at
all because the network is late. Packet counts never stand for time. Reordering, duplicates,
wraps, a restarted sender and a changed codec all end up as places on the same line.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field

from rtc_agent.engine.stepper import SAMPLE_RATE

MAX_SPAN = 2 * SAMPLE_RATE
"""Packets further apart than this are not kept: a caller's backlog is bounded."""
_MAX_DROPOUT = 3_000
"""Sequence steps beyond which a sender must have restarted (RFC 3550, A.1)."""
_FUTURE_LIMIT = 1 * SAMPLE_RATE
"""How far ahead of its due time a packet can be believed."""
_RESTART_CHAIN = 3
"""So many packets in a row that are all too late, but well spaced, are a restarted sender's."""
_TRANSIT_RISE = 0.0005
"""How fast the least transit seen may be forgotten, in seconds per second: above any drift."""


@dataclass(frozen=True, slots=True, order=True)
class MediaPacket:
    """A packet on the timeline."""

    start: int
    """First sample on the timeline."""
    length: int = field(compare=False)
    sequence: int = field(compare=False)
    """Unwrapped sequence number."""
    payload_type: int = field(compare=False)
    payload: bytes = field(compare=False, repr=False)
    arrival_s: float = field(compare=False)

    @property
    def end(self) -> int:
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Played:
    """A packet to decode; its first `skip` samples lie behind the reader."""

    packet: MediaPacket
    skip: int
    lost_before: int
    """Packets between the last one read and this one that never came."""


@dataclass(frozen=True, slots=True)
class Lost:
    """So many samples never arrived; `following` is the packet right behind them, if known."""

    samples: int
    following: MediaPacket | None


@dataclass(frozen=True, slots=True)
class Quiet:
    """The sender sent nothing for so many samples, on purpose."""

    samples: int


@dataclass(frozen=True, slots=True)
class Nothing:
    """No packet at or beyond the reader has arrived."""


Stretch = Played | Lost | Quiet | Nothing


@dataclass(slots=True)
class BufferCounts:
    """What happened so far."""

    received: int = 0
    lost: int = 0
    """Expected by sequence number and not here; falls when a straggler comes."""
    duplicates: int = 0
    late: int = 0
    """Arrived after their time had been filled otherwise."""
    late_samples: int = 0
    overflowed_samples: int = 0
    """Given up because nobody read for longer than `MAX_SPAN`."""
    restarts: int = 0
    jitter_s: float = 0.0
    """Interarrival jitter (RFC 3550, 6.4.1)."""


@dataclass(slots=True)
class _Epoch:
    """One run of a sender: what its numbers mean on our timeline."""

    ssrc: int
    clock_rate: int
    last_timestamp: int
    unwrapped_timestamp: int
    origin_timestamp: int
    origin_start: int

    def start_of(self, timestamp: int) -> int:
        step = (timestamp - self.last_timestamp + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000
        unwrapped = self.unwrapped_timestamp + step
        if step > 0:
            self.last_timestamp, self.unwrapped_timestamp = timestamp, unwrapped
        offset = (unwrapped - self.origin_timestamp) * SAMPLE_RATE // self.clock_rate
        return self.origin_start + offset


@dataclass(frozen=True, slots=True)
class Arrival:
    """A packet as it came off the wire."""

    sequence: int
    timestamp: int
    ssrc: int
    payload_type: int
    payload: bytes
    length: int
    """Samples at 24 kHz."""
    clock_rate: int
    arrival_s: float


class ReceiveBuffer:
    """The timeline of one caller. Not thread-safe; never blocks."""

    def __init__(self) -> None:
        self.counts = BufferCounts()
        self.head: int | None = None
        """The reader's place; None until `seek`."""
        self.late_start = 0
        """Where the last late packet would have begun."""
        self._packets: list[MediaPacket] = []
        self._epoch: _Epoch | None = None
        self._transit_s: float | None = None
        self._transit_at_s = 0.0
        self._last_transit_s: float | None = None
        self._newest_end = 0
        self._sequence: int | None = None
        self._sequence_base = 0
        self._sequence_offset = 0
        self._highest = -1
        self._expected_before = 0
        self._received_in_run = 0
        self._foreign: deque[int] = deque(maxlen=64)
        self._seen: set[int] = set()
        self._seen_order: deque[int] = deque(maxlen=512)
        self._played_sequence: int | None = None
        self._suspects: list[Arrival] = []

    # -- arriving -------------------------------------------------------------------------------

    def push(self, arrival: Arrival) -> MediaPacket | None:
        """Take a packet in. Returns its place, or None if it was not of use."""
        if arrival.length <= 0:
            self.note_foreign(arrival.sequence)
            return None
        epoch = self._epoch
        if epoch is None or epoch.ssrc != arrival.ssrc or epoch.clock_rate != arrival.clock_rate:
            return self._begin_epoch(arrival)
        start = epoch.start_of(arrival.timestamp)
        if start - self._due(arrival.arrival_s) > _FUTURE_LIMIT:
            return self._begin_epoch(arrival)
        if self.head is not None and start + arrival.length <= self.head:
            return self._take_late(arrival, start)
        self._suspects.clear()
        return self._place(arrival, start)

    def note_foreign(self, sequence: int) -> None:
        """A packet without audio (a digit, an empty payload) took this sequence number."""
        if self._sequence is not None:
            self._foreign.append(self._unwrap(sequence))
            self._received_in_run += 1
            self._count_losses()

    # -- reading --------------------------------------------------------------------------------

    @property
    def started(self) -> bool:
        """Something has arrived, ever."""
        return self._epoch is not None

    def due_s(self) -> float | None:
        """When the packet behind the furthest is due, if nothing holds it up; None before any."""
        if self._transit_s is None:
            return None
        return self._transit_s + self._newest_end / SAMPLE_RATE

    @property
    def newest_end(self) -> int:
        """The end of the furthest packet so far."""
        return self._newest_end

    def seek(self, place: int) -> int:
        """Set the reader's place. Returns the samples of waiting packets given up by it."""
        self.head = place
        return self._drop_passed()

    def waiting(self) -> int:
        """Samples between the reader and the end of what has arrived."""
        if self.head is None or not self._packets:
            return 0
        return max(0, self._packets[-1].end - self.head)

    def next_start(self) -> int | None:
        """Where the next waiting packet begins; None if none waits."""
        return self._packets[0].start if self._packets else None

    def waiting_at(self, start: int) -> MediaPacket | None:
        """The waiting packet that begins there."""
        at = bisect_left(self._packets, start, key=lambda packet: packet.start)
        if at < len(self._packets) and self._packets[at].start == start:
            return self._packets[at]
        return None

    def end_of_arrived(self, by_s: float) -> int:
        """The end of the furthest waiting packet that was here by then; the first one's start if
        none was."""
        ends = [packet.end for packet in self._packets if packet.arrival_s <= by_s]
        if ends:
            return max(ends)
        return self._packets[0].start if self._packets else self._newest_end

    def read(self, limit: int) -> Stretch:
        """What lies at the reader's place; the place moves behind it (not for `Nothing`).

        A packet comes whole; a gap longer than `limit` samples comes in parts.
        """
        assert self.head is not None, "seek first"
        self._drop_passed()
        if not self._packets:
            return Nothing()
        packet = self._packets[0]
        gap = packet.start - self.head
        if gap > 0:
            part = min(gap, max(limit, 1))
            self.head += part
            if self._missing_before(packet) > 0:
                return Lost(part, packet if part == gap else None)
            return Quiet(part)
        self._packets.pop(0)
        lost_before = self._missing_before(packet)
        self.head = packet.end
        self._played_sequence = packet.sequence
        return Played(packet, -gap, lost_before)

    def pass_over(self, samples: int) -> int:
        """Move the reader on without reading. Returns the samples of packets given up by it."""
        assert self.head is not None, "seek first"
        return self.seek(self.head + samples)

    # -- inside ---------------------------------------------------------------------------------

    def _due(self, arrival_s: float) -> int:
        """Where on the timeline a packet sent without any queueing would be by now."""
        assert self._transit_s is not None
        return round((arrival_s - self._transit_s) * SAMPLE_RATE)

    def _begin_epoch(self, arrival: Arrival) -> MediaPacket | None:
        start = 0
        if self._epoch is not None:
            # Not behind the reader either: wherever that stands, it must hear again.
            start = max(self._newest_end, self._due(arrival.arrival_s), self.head or 0)
            self.counts.restarts += 1
        self._epoch = _Epoch(
            arrival.ssrc,
            arrival.clock_rate,
            arrival.timestamp,
            arrival.timestamp,
            arrival.timestamp,
            start,
        )
        self._restart_sequence()
        self._last_transit_s = None
        self._suspects.clear()
        return self._place(arrival, start)

    def _restart_sequence(self) -> None:
        if self._sequence is not None:
            self._expected_before += self._sequence - self._sequence_base + 1
        self._sequence = None
        self._seen.clear()
        self._seen_order.clear()

    def _unwrap(self, sequence: int) -> int:
        """The sequence number counted on from the very first, whatever wrapped or restarted since;
        also tracks the highest."""
        if self._sequence is None:
            self._sequence = self._sequence_base = sequence
            self._sequence_offset = self._highest + 1 - sequence
        step = (sequence - self._sequence + 0x8000) % 0x1_0000 - 0x8000
        unwrapped = self._sequence + step
        self._sequence = max(self._sequence, unwrapped)
        self._highest = max(self._highest, unwrapped + self._sequence_offset)
        return unwrapped + self._sequence_offset

    def _is_new(self, sequence: int) -> bool:
        """Count a packet in, or count it as a duplicate."""
        if sequence in self._seen:
            self.counts.duplicates += 1
            return False
        if len(self._seen_order) == self._seen_order.maxlen:
            self._seen.discard(self._seen_order[0])
        self._seen_order.append(sequence)
        self._seen.add(sequence)
        self.counts.received += 1
        self._received_in_run += 1
        self._count_losses()
        return True

    def _place(self, arrival: Arrival, start: int) -> MediaPacket | None:
        self._check_sequence_run(arrival, start)
        sequence = self._unwrap(arrival.sequence)
        if not self._is_new(sequence):
            return None
        for other in self._packets:
            if other.start == start and other.sequence < sequence:
                # Senders exist that give every packet of a long frame the same timestamp.
                start = other.end
        packet = MediaPacket(
            start,
            arrival.length,
            sequence,
            arrival.payload_type,
            arrival.payload,
            arrival.arrival_s,
        )
        insort(self._packets, packet)
        self._newest_end = max(self._newest_end, packet.end)
        self._measure(arrival.arrival_s, start)
        while self._packets[-1].end - self._packets[0].start > MAX_SPAN:
            dropped = self._packets.pop(0)
            self._played_sequence = dropped.sequence
            self.counts.overflowed_samples += dropped.length
        return packet

    def _check_sequence_run(self, arrival: Arrival, start: int) -> None:
        """A sender may restart its sequence numbers and keep its clock (or leap far ahead)."""
        if self._sequence is None:
            return
        step = (arrival.sequence - self._sequence + 0x8000) % 0x1_0000 - 0x8000
        if abs(step) > _MAX_DROPOUT or (step <= 0 and start >= self._newest_end):
            self._restart_sequence()

    def _take_late(self, arrival: Arrival, start: int) -> MediaPacket | None:
        """A packet whose time has passed: a straggler, or the first of a restarted sender's."""
        if self._is_restart(arrival):
            first, *others = self._suspects
            self.counts.received -= len(others)
            self._received_in_run -= len(others)
            placed = self._begin_epoch(first)
            for other in others:
                placed = self.push(other)
            return placed
        if not self._is_new(self._unwrap(arrival.sequence)):
            return None
        self.late_start = start
        self.counts.late += 1
        self.counts.late_samples += arrival.length
        self._measure(arrival.arrival_s, start)
        return None

    def _is_restart(self, arrival: Arrival) -> bool:
        """A straggler comes alone or in a burst; a restarted sender's packets keep coming, each a
        packet's time after the one before."""
        if self._suspects:
            previous = self._suspects[-1]
            steps = (arrival.sequence - previous.sequence) % 0x1_0000
            if not 1 <= steps <= 3 or arrival.timestamp == previous.timestamp:
                self._suspects.clear()
        self._suspects.append(arrival)
        if len(self._suspects) < _RESTART_CHAIN:
            return False
        self._suspects = self._suspects[-_RESTART_CHAIN:]
        first = self._suspects[0]
        media_s = ((arrival.timestamp - first.timestamp) % 0x1_0000_0000) / arrival.clock_rate
        elapsed_s = arrival.arrival_s - first.arrival_s
        return media_s < 1.0 and elapsed_s > 0.5 * media_s

    def _measure(self, arrival_s: float, start: int) -> None:
        transit = arrival_s - start / SAMPLE_RATE
        if self._transit_s is None:
            self._transit_s = transit
        else:
            risen = self._transit_s + _TRANSIT_RISE * (arrival_s - self._transit_at_s)
            self._transit_s = min(risen, transit)
        self._transit_at_s = arrival_s
        if self._last_transit_s is not None:
            step = abs(transit - self._last_transit_s)
            self.counts.jitter_s += (step - self.counts.jitter_s) / 16
        self._last_transit_s = transit

    def _count_losses(self) -> None:
        assert self._sequence is not None
        expected = self._expected_before + self._sequence - self._sequence_base + 1
        self.counts.lost = max(0, expected - self._received_in_run)

    def _missing_before(self, packet: MediaPacket) -> int:
        """Packets that were sent between the last one read and this one and are not here."""
        if self._played_sequence is None:
            return 0
        between = packet.sequence - self._played_sequence - 1
        foreign = sum(self._played_sequence < s < packet.sequence for s in self._foreign)
        return max(0, between - foreign)

    def _drop_passed(self) -> int:
        assert self.head is not None
        given_up = 0
        while self._packets and self._packets[0].end <= self.head:
            packet = self._packets.pop(0)
            self._played_sequence = packet.sequence
            given_up += packet.length
        return given_up
