"""A caller's packets in, one unbroken 24 kHz stream out, as much of it as each tick asks for."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rtc_agent.engine.placing import PacketTimes
from rtc_agent.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE, Pcm
from rtc_agent.media.aiortc_shim import RtpPacket
from rtc_agent.media.codecs import (
    OPUS,
    PACKET_SAMPLES,
    AudioDecoder,
    CodecInfo,
    decoder_for,
    silence,
)
from rtc_agent.media.delay_control import EDGE_S, SAFETY_S, DelayController
from rtc_agent.media.levels import dbfs
from rtc_agent.media.opus import CodecError
from rtc_agent.media.receive_buffer import (
    Arrival,
    Lost,
    MediaPacket,
    Nothing,
    Played,
    Quiet,
    ReceiveBuffer,
)
from rtc_agent.media.silence_edit import lengthen, shorten, silent_run
from rtc_agent.media.variable_rate import HALF, VariableRateReader

logger = logging.getLogger(__name__)

_MS = SAMPLE_RATE // 1000
MAX_HOLD = 100 * _MS
"""So long the reader waits for late speech; after that the time counts as lost."""
MAX_BACKLOG = 160 * _MS
"""Two frames: more audio than this never waits behind a tick."""
AHEAD = 400 * _MS
"""A packet that begins further from the reader is not decoded yet: nobody may come to read it."""
_AT_ONCE = 2
"""So many are decoded when one comes: those that wait undecoded get fewer, without a burst."""
_EDGE = round(EDGE_S * SAMPLE_RATE)
_MAX_EDIT = 20 * _MS
"""So much silence is cut or drawn out in one frame at most."""
_QUIET_TAIL = 200 * _MS
"""Comfort noise goes on for so long after the last packet; then silence."""
_ACTIVE_DBFS = -50.0
_REDUNDANT = 0.2
"""The share of packets of speech with redundancy in them from which it is worth a wait."""
_REDUNDANCY_MEMORY = 0.02
_DTX_BYTES = 2
"""An Opus packet of at most so many bytes says "nothing more for now" (RFC 6716, 2.1.9)."""


@dataclass(frozen=True, slots=True)
class ReceiveStats:
    """Cumulative, but for the last two."""

    packets_received: int
    packets_lost: int
    concealed_ms: float
    """Made up, because it was lost or late."""
    recovered_ms: float
    """Lost, and had back from the redundancy in the packet behind."""
    dropped_ms: float
    """Arrived, but given up: too late, or behind by more than two frames."""
    before_ready_ms: float
    """Arrived before the first read and not part of it."""
    jitter_ms: float
    buffer_ms: float


class AudioReceiver:
    """One caller's receive path. Single-threaded; nothing in it waits."""

    def __init__(self, codecs: Mapping[int, CodecInfo]) -> None:
        """`codecs` by payload type; packets of other types count as no audio."""
        self._codecs = dict(codecs)
        self._buffer = ReceiveBuffer()
        self._decoder: AudioDecoder | None = None
        self._decoder_codec: CodecInfo | None = None
        self._decoded_to: int | None = None
        """Where the decoder stands, if decoding was what it did last."""
        self._ahead: deque[tuple[MediaPacket, Pcm]] = deque()
        self._reader = VariableRateReader()
        self._delay = DelayController()
        self._packet_samples = self._pushed_samples = PACKET_SAMPLES
        self._now_s = 0.0
        self._latest_arrival_s: float | None = None
        self._last_head = 0
        self._missed_frame: int | None = None
        self.rate = 0.0
        """By how much faster than it came the last frame was read."""
        self.waits = 0
        """Times that speech was filled in because its packets were late."""
        self._skipping = False
        self._held = 0
        self._hold_s = float("inf")
        self._since_packet = 0
        self._active = False
        self._concealed = 0
        self._recovered = 0
        self._redundancy = 0.0
        self._dropped = 0
        self._before_ready = 0
        self._undecodable = 0

    def push(self, packet: RtpPacket, now_s: float) -> None:
        """Take in a packet as it arrives."""
        codec = self._codecs.get(packet.payload_type)
        length = 0 if codec is None else codec.duration(packet.payload)
        if codec is None or length == 0:
            self._buffer.note_foreign(packet.sequence_number)
            return
        self._pushed_samples = length
        late_before = self._buffer.counts.late
        placed = self._buffer.push(
            Arrival(
                packet.sequence_number,
                packet.timestamp,
                packet.ssrc,
                packet.payload_type,
                packet.payload,
                length,
                codec.clock_rate,
                now_s,
            )
        )
        if self._buffer.counts.late > late_before:
            self._note_late(now_s, length)
        elif placed is not None:
            self._decode_ahead()

    def packet_times(self, packets: int) -> PacketTimes | None:
        """When packets are due, once so many have come."""
        due_s = self._buffer.due_s()
        if due_s is None or self._buffer.counts.received < packets:
            return None
        return PacketTimes(due_s, self._pushed_samples / SAMPLE_RATE)

    def read(self, samples: int, now_s: float) -> Pcm:
        """The `samples` that end now. Called once a tick."""
        if not self._buffer.started:
            return silence(samples)
        if self._buffer.head is None:
            self._start(samples, now_s)
        self._settle_hold()
        self._shed_backlog(samples)
        self._now_s = now_s
        self._latest_arrival_s = None
        error = 0.0
        if not self._held:
            error = self._delay.error_s(
                self._reader.surplus() / SAMPLE_RATE,
                self._packet_samples / SAMPLE_RATE,
                recoverable=self._redundancy > _REDUNDANT,
            )
        rate = self.rate = self._delay.rate(error)
        if not self._delay.urgent(error):
            pcm = self._take(samples, rate)
        elif error > 0:
            pcm = self._take_shortened(samples, rate, error)
        else:
            pcm = self._take_lengthened(samples, rate, -error)
        assert self._buffer.head is not None
        self._last_head = self._buffer.head
        if self._latest_arrival_s is not None:
            self._delay.observe(self._latest_arrival_s - self._last_head / SAMPLE_RATE)
        self._delay.tick(now_s - (self._last_head - self._reader.surplus()) / SAMPLE_RATE)
        return pcm

    def skip(self, samples: int) -> None:
        """Let `samples` of time pass unheard."""
        if self._buffer.head is None:
            return
        self._dropped += samples
        self._settle_hold()
        self._skipping = True
        self._take(samples, 0.0)
        self._skipping = False

    def stats(self) -> ReceiveStats:
        counts = self._buffer.counts
        return ReceiveStats(
            packets_received=counts.received,
            packets_lost=counts.lost,
            concealed_ms=self._concealed / _MS,
            recovered_ms=self._recovered / _MS,
            dropped_ms=(self._dropped + counts.late_samples + counts.overflowed_samples) / _MS,
            before_ready_ms=self._before_ready / _MS,
            jitter_ms=counts.jitter_s * 1000,
            buffer_ms=(self._buffer.waiting() + self._reader.surplus()) / _MS,
        )

    def _start(self, samples: int, now_s: float) -> None:
        """Choose the reader's first place: this frame ends with the newest packet that was here in
        good time, so that every later one will be too."""
        end = self._buffer.end_of_arrived(now_s - SAFETY_S)
        self._before_ready += self._buffer.seek(end - samples - HALF - _EDGE)
        self._before_ready += self._buffer.counts.overflowed_samples
        self._buffer.counts.overflowed_samples = 0

    def _shed_backlog(self, samples: int) -> None:
        waiting = self._buffer.waiting() + self._reader.surplus() - samples
        excess = waiting - MAX_BACKLOG - round(self._delay.safety_s * SAMPLE_RATE)
        if excess > 0:
            assert self._buffer.head is not None
            self._dropped += self._buffer.pass_over(excess)
            self._delay.moved(-excess / SAMPLE_RATE)

    def _take(self, samples: int, rate: float) -> Pcm:
        while (missing := self._reader.missing(samples, rate)) > 0:
            self._reader.feed(self._next(missing))
        self._delay.corrected(-rate * samples / SAMPLE_RATE)
        return self._reader.take(samples, rate)

    def _take_shortened(self, samples: int, rate: float, by_s: float) -> Pcm:
        """A frame out of more audio than a frame's, if there is silence in it to leave out."""
        pcm = self._take(samples, rate)
        here = self._buffer.waiting() + self._reader.surplus()
        cut = min(round(by_s * SAMPLE_RATE), _MAX_EDIT, here, silent_run(pcm)[1] - 5 * _MS)
        if cut <= 0:
            return pcm
        self._delay.corrected(-cut / SAMPLE_RATE)
        return shorten(np.concatenate([pcm, self._take(cut, rate)]), cut)

    def _take_lengthened(self, samples: int, rate: float, by_s: float) -> Pcm:
        """A frame out of less audio than a frame's, if there is silence in it to draw out."""
        extra = min(round(by_s * SAMPLE_RATE), _MAX_EDIT)
        part = self._take(samples - extra, rate)
        pcm = lengthen(part, extra)
        self._delay.corrected((len(pcm) - len(part)) / SAMPLE_RATE)
        if len(pcm) < samples:
            pcm = np.concatenate([pcm, self._take(samples - len(pcm), rate)])
        return pcm

    def _next(self, wanted: int) -> Pcm:
        """The next stretch of audio, at least one sample of it."""
        self._settle_hold()
        # Whole packets: what stands in for one is made, repaired and given up in one piece.
        wanted = max(wanted, self._packet_samples)
        stretch = self._buffer.read(wanted)
        if isinstance(stretch, Played):
            self._note_arrival(stretch.packet)
            if self._ends_talk(stretch.packet):
                # Decoding it would start concealment of whatever was last heard.
                self._active = False
                return self._fill(stretch.packet.length)[stretch.skip :]
            self._since_packet = 0
            for _ in range(min(stretch.lost_before, 50)):
                self._delay.observe_packet(lost=True)
            self._delay.observe_packet(lost=False)
            return self._decode(stretch)[stretch.skip :]
        if isinstance(stretch, Lost):
            return self._bridge(stretch)
        if isinstance(stretch, Quiet):
            return self._fill(stretch.samples)
        assert isinstance(stretch, Nothing)
        if self._active and self._held < MAX_HOLD and not self._skipping:
            if not self._held:
                self.waits += 1
                self._hold_s = self._now_s
            self._held += wanted
            self._delay.moved(wanted / SAMPLE_RATE)
        else:
            self._buffer.pass_over(wanted)
        return self._fill(wanted)

    def _note_late(self, now_s: float, length: int) -> None:
        """A packet came after its tick: one observation for all that missed the same tick."""
        start = self._buffer.late_start
        if start // FRAME_SAMPLES != self._missed_frame:
            self._missed_frame = start // FRAME_SAMPLES
            self._delay.observe(now_s - (start + length) / SAMPLE_RATE)

    def _note_arrival(self, packet: MediaPacket) -> None:
        """What a packet that is played says of the network."""
        self._packet_samples = packet.length
        if packet.arrival_s > self._hold_s:
            # It was waited for: it alone says how much lag there should have been.
            self._delay.observe(packet.arrival_s - packet.end / SAMPLE_RATE)
            self._hold_s = float("inf")
        elif self._latest_arrival_s is None or packet.arrival_s > self._latest_arrival_s:
            self._latest_arrival_s = packet.arrival_s

    def _settle_hold(self) -> None:
        """What was filled while waiting stands for whatever turned out never to come."""
        start = self._buffer.next_start()
        if not self._held or start is None:
            return
        assert self._buffer.head is not None
        gap = start - self._buffer.head
        if gap > 0:
            passed = min(gap, self._held)
            self._buffer.pass_over(passed)
            self._delay.moved(-passed / SAMPLE_RATE)
            # What was waited for never came; this packet was not due yet.
            self._hold_s = float("inf")
        self._held = 0

    def _ends_talk(self, packet: MediaPacket) -> bool:
        return self._codecs[packet.payload_type] is OPUS and len(packet.payload) <= _DTX_BYTES

    def _decode_ahead(self) -> None:
        """Decode what is next in turn when a packet comes: at the tick, those of all calls would be
        decoded at once. The decoder sees the same packets in the same order as without."""
        for _ in range(_AT_ONCE):
            place, head = self._decoded_to, self._buffer.head
            if place is None or head is None or place - head > AHEAD:
                return
            packet = self._buffer.waiting_at(place)
            if packet is None or self._ends_talk(packet):
                return
            if self._codecs[packet.payload_type] is not self._decoder_codec:
                return
            assert self._decoder is not None
            try:
                self._ahead.append((packet, self._decoder.decode(packet.payload)))
                self._decoded_to = packet.end
            except CodecError:
                # Its turn will come, and so will the error.
                self._decoded_to = None

    def _decoded(self, packet: MediaPacket) -> Pcm:
        """A packet's samples, which may be there already. Raises CodecError."""
        while self._ahead and self._ahead[0][0].start <= packet.start:
            ahead, pcm = self._ahead.popleft()
            if ahead is packet:
                return pcm
        self._decoded_to = None
        pcm = self._decoder_for(packet.payload_type).decode(packet.payload)
        self._decoded_to = packet.end
        return pcm

    def _decode(self, played: Played) -> Pcm:
        packet = played.packet
        try:
            pcm = self._decoded(packet)
        except CodecError as error:
            self._undecodable += 1
            if self._undecodable == 1:
                logger.warning("an audio packet could not be decoded: %s", error)
            self._concealed += packet.length
            return self._decoder_for(packet.payload_type).conceal(packet.length)
        if len(pcm) != packet.length:
            pcm = np.resize(pcm, packet.length) if len(pcm) else silence(packet.length)
        self._active = dbfs(pcm) > _ACTIVE_DBFS
        if self._active and self._decoder is not None:
            found = self._decoder.has_redundancy(packet.payload)
            self._redundancy += _REDUNDANCY_MEMORY * (found - self._redundancy)
        return pcm

    def _bridge(self, lost: Lost) -> Pcm:
        """Lost speech: from the redundancy in the packet behind it, the rest by concealment."""
        self._concealed += lost.samples
        self._since_packet += lost.samples
        following = lost.following
        if following is None or self._decoder is None:
            return self._stand_in(lost.samples)
        if self._decoder_codec is not self._codecs[following.payload_type]:
            return self._stand_in(lost.samples)
        recoverable = min(lost.samples, following.length)
        head = self._stand_in(lost.samples - recoverable)
        self._decoded_to = None
        tail = self._decoder.recover(following.payload, recoverable)
        if tail is None or len(tail) != recoverable:
            tail = self._stand_in(recoverable)
        else:
            self._concealed -= recoverable
            self._recovered += recoverable
        return np.concatenate([head, tail])

    def _fill(self, samples: int) -> Pcm:
        """Time without a packet."""
        if self._active:
            self._concealed += samples
        self._since_packet += samples
        return self._stand_in(samples)

    def _stand_in(self, samples: int) -> Pcm:
        if samples <= 0:
            return np.empty(0, np.float32)
        if self._decoder is None or self._since_packet > _QUIET_TAIL + samples:
            self._active = False
            return silence(samples)
        self._decoded_to = None
        return self._decoder.conceal(samples)

    def _decoder_for(self, payload_type: int) -> AudioDecoder:
        codec = self._codecs[payload_type]
        if self._decoder is None or self._decoder_codec is not codec:
            self._decoder, self._decoder_codec = decoder_for(codec), codec
        return self._decoder
