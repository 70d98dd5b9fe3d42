"""A caller's microphone: encoded packets, each due at its own moment of a monotonic clock."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Protocol

import av
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError

from rtc_agent.client.sources import NOT_SENT, PacketSource
from rtc_agent.clock import Clock
from rtc_agent.media.codecs import PACKET_S, CodecInfo


class Quiet(Protocol):
    """What is sent while there is nothing to say."""

    def next(self) -> bytes: ...


class PacedTrack(MediaStreamTrack):
    """Sends `quiet`, and a source while one plays, one packet every 20 ms of the caller's clock.

    Packet n is due at an absolute moment, so that lateness is made up for and never adds up. A
    packet is due when its last sample has been said: 20 ms after its first one.
    """

    kind = "audio"

    def __init__(
        self,
        quiet: Quiet,
        clock: Clock,
        codec: CodecInfo,
        *,
        drift_ppm: float = 0.0,
        phase_s: float | None = None,
    ) -> None:
        """A sender with `drift_ppm` sends that many millionths too fast. With a phase, the first
        packet is due so long after a whole 20 ms of the clock; else when it is first asked for."""
        super().__init__()
        self._quiet = quiet
        self._source: PacketSource | None = None
        self._clock = clock
        self._interval_s = PACKET_S / (1 + drift_ppm * 1e-6)
        self._phase_s = phase_s
        self._time_base = Fraction(1, codec.clock_rate)
        self._step = codec.timestamp_step
        self._first_due_s: float | None = None
        self._sent = 0
        self.finished = asyncio.Event()
        """Set when the source that was played has been sent whole."""
        self.worst_lateness_s = 0.0
        """How late a packet of what was played last, or before anything was, was handed over at
        most: this process's share of any trouble."""

    def play(self, source: PacketSource) -> float:
        """Say `source` from the next packet on. Returns when its first sample counts as said, in
        seconds on the clock."""
        self._source = source
        self.worst_lateness_s = 0.0
        self.finished.clear()
        if self._first_due_s is None:
            self._first_due_s = self._in_phase(self._clock.now() + self._interval_s)
        return self._due_s() - self._interval_s

    async def recv(self) -> av.Packet:
        """The next packet as aiortc's own sender takes it."""
        payload, timestamp = await self.next_packet()
        packet = av.Packet(payload)
        packet.pts = timestamp
        packet.time_base = self._time_base
        return packet

    async def next_packet(self) -> tuple[bytes, int]:
        """The next payload and its RTP timestamp, when it is due."""
        while True:
            if self.readyState != "live":
                raise MediaStreamError
            if self._first_due_s is None:
                self._first_due_s = self._in_phase(self._clock.now())
            await self._clock.sleep_until(self._due_s())
            late_s = self._clock.now() - self._due_s()
            self.worst_lateness_s = max(self.worst_lateness_s, late_s)
            payload = self._next_payload()
            place = self._sent
            self._sent += 1
            if payload != NOT_SENT:
                return payload, place * self._step

    def _due_s(self) -> float:
        assert self._first_due_s is not None
        return self._first_due_s + self._sent * self._interval_s

    def _in_phase(self, soonest_s: float) -> float:
        if self._phase_s is None:
            return soonest_s
        return soonest_s + (self._phase_s - soonest_s) % PACKET_S

    def _next_payload(self) -> bytes:
        if self._source is not None:
            payload = self._source.next()
            if payload is not None:
                return payload
            self._source = None
            self.finished.set()
        return self._quiet.next()
