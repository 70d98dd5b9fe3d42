"""From packets to the sound a listener would have heard, on the sender's timeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rtc_agent.client.packets import Arrivals, ReceivedPacket, SenderLine
from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media.codecs import CodecInfo, decoder_for
from rtc_agent.media.opus import CodecError

LONGEST_CONCEALED_S = 0.2
"""Longer losses are concealed this far; the rest of them is silence."""


@dataclass(slots=True)
class Heard:
    """Counts over the recorded stretch; whole once `Recording.blocks` has been read."""

    packets: int = 0
    lost_packets: int = 0
    concealed_ms: float = 0.0
    silent_ms: float = 0.0
    """Time for which nothing was sent, or that a loss left silent."""
    longest_silent_ms: float = 0.0


class Recording:
    """One stretch of a received stream as continuous 24 kHz audio.

    A sample's place is its RTP timestamp and nothing else: what is missing leaves a hole of its
    own length, which is concealed and counted. Time 0 is the caller's moment `origin_s`, so that
    the recording lies beside what the caller said with the delay that a listener would have.
    """

    def __init__(
        self,
        packets: list[ReceivedPacket],
        codec: CodecInfo,
        origin_s: float,
        samples: int,
    ) -> None:
        """`packets` in order, `samples` at 24 kHz to record."""
        self._packets = [p for p in packets if p.payload]
        self._decoder = decoder_for(codec)
        self._clock_rate = codec.clock_rate
        self._samples = samples
        self._arrivals = Arrivals(self._packets)
        self._origin_s = origin_s
        self._line = SenderLine.through(self._packets, codec.clock_rate, origin_s)
        self._first_timestamp = self._line.timestamp_at(origin_s) if self._line else None
        self.heard = Heard()

    def read(self) -> Pcm:
        """The whole stretch, [samples]."""
        return np.concatenate([np.zeros(0, np.float32), *self.blocks()])

    def blocks(self) -> Iterator[Pcm]:
        """The whole stretch once, in blocks; exactly `samples` in all."""
        self.heard = Heard()
        cursor = 0
        for place, pcm, kind in self._segments():
            if place >= self._samples:
                break
            pcm = pcm[max(0, cursor - place) : self._samples - place]
            place = max(place, cursor)
            if len(pcm) == 0:
                continue
            if place > cursor:
                yield self._silence(place - cursor)
            if kind == "silent":
                self._count_silence(len(pcm))
            elif kind == "concealed":
                self.heard.concealed_ms += len(pcm) / SAMPLE_RATE * 1e3
            else:
                self.heard.packets += 1
            yield pcm
            cursor = place + len(pcm)
        if cursor < self._samples:
            yield self._silence(self._samples - cursor)

    def heard_at(self, second: float) -> float | None:
        """When the sample `second` seconds into the recording reached the caller, on its clock:
        the arrival of the packet that holds it and its place therein. None if that was lost."""
        if self._first_timestamp is None:
            return None
        moment = self._first_timestamp + round(second * self._clock_rate)
        packet = self._arrivals.holding(moment, round(0.02 * self._clock_rate))
        if packet is None:
            return None
        return packet.arrival_s + (moment - packet.timestamp) / self._clock_rate

    def lateness(self) -> Iterator[tuple[float, float]]:
        """Each packet's arrival after the origin, and after the earliest it could have come; in
        seconds, for the packets of the recorded stretch."""
        if self._line is None:
            return
        for packet in self._packets:
            due_s = self._line.offset_s + packet.timestamp / self._line.clock_rate
            if 0 <= due_s - self._origin_s < self._samples / SAMPLE_RATE:
                yield packet.arrival_s - self._origin_s, packet.arrival_s - due_s

    def _segments(self) -> Iterator[tuple[int, Pcm, str]]:
        """Place in the recording, samples, and what they are; in order, back to back."""
        if self._first_timestamp is None:
            return
        end: int | None = None
        sequence = 0
        for packet in self._packets:
            place = self._place(packet.timestamp)
            if end is not None and place > end:
                lost = packet.sequence - sequence - 1
                if lost:
                    yield from self._fill(end, place - end, lost, packet.payload)
                else:
                    yield end, np.zeros(place - end, np.float32), "silent"
            try:
                pcm = self._decoder.decode(packet.payload)
            except CodecError:
                # To a listener it is as good as lost.
                continue
            yield place, pcm, "heard"
            end, sequence = place + len(pcm), packet.sequence

    def _fill(
        self, place: int, samples: int, lost: int, following: bytes
    ) -> Iterator[tuple[int, Pcm, str]]:
        """Stand-ins for `lost` packets of `samples` in all."""
        if 0 < place + samples and place < self._samples:
            self.heard.lost_packets += lost
        packet = samples // lost
        longest = round(LONGEST_CONCEALED_S * SAMPLE_RATE)
        concealed = min(samples - packet, longest)
        if concealed:
            yield place, self._decoder.conceal(concealed), "concealed"
        if silent := samples - packet - concealed:
            yield place + concealed, np.zeros(silent, np.float32), "silent"
        last = self._decoder.recover(following, packet)
        if last is None:
            last = self._decoder.conceal(packet)
        yield place + samples - packet, last, "concealed"

    def _place(self, timestamp: int) -> int:
        assert self._first_timestamp is not None
        return round((timestamp - self._first_timestamp) * SAMPLE_RATE / self._clock_rate)

    def _silence(self, samples: int) -> Pcm:
        self._count_silence(samples)
        return np.zeros(samples, np.float32)

    def _count_silence(self, samples: int) -> None:
        length_ms = samples / SAMPLE_RATE * 1e3
        self.heard.silent_ms += length_ms
        self.heard.longest_silent_ms = max(self.heard.longest_silent_ms, length_ms)
