"""A caller's packets in, one unbroken 24 kHz stream out, as much of it as each tick asks for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media.aiortc_shim import RtpPacket
from rtc_agent.media.codecs import OPUS, AudioDecoder, CodecInfo, decoder_for, silence
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

logger = logging.getLogger(__name__)

_MS = SAMPLE_RATE // 1000
SAFETY_S = 0.003
"""A packet must have been here for so long to count on its successors at the same time."""
MAX_HOLD = 100 * _MS
"""So long the reader waits for late speech; after that the time counts as lost."""
MAX_BACKLOG = 160 * _MS
"""Two frames: more audio than this never waits behind a tick."""
_QUIET_TAIL = 200 * _MS
"""Comfort noise goes on for so long after the last packet; then silence."""
_ACTIVE_DBFS = -50.0
_DTX_BYTES = 2
"""An Opus packet of at most so many bytes says "nothing more for now" (RFC 6716, 2.1.9)."""


@dataclass(frozen=True, slots=True)
class ReceiveStats:
    """Cumulative, but for the last two."""

    packets_received: int
    packets_lost: int
    concealed_ms: float
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
        self._ready = np.empty(0, np.float32)
        self._held = 0
        self._since_packet = 0
        self._active = False
        self._concealed = 0
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
        self._buffer.push(
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

    def read(self, samples: int, now_s: float) -> Pcm:
        """The `samples` that end now. Called once a tick."""
        if not self._buffer.started:
            return silence(samples)
        if self._buffer.head is None:
            self._start(samples, now_s)
        self._shed_backlog(samples)
        while len(self._ready) < samples:
            self._ready = np.concatenate([self._ready, self._next(samples - len(self._ready))])
        out, self._ready = self._ready[:samples], self._ready[samples:]
        return out

    def skip(self, samples: int, now_s: float) -> None:
        """Let `samples` of time pass unheard."""
        if self._buffer.head is not None:
            self._dropped += samples
            self.read(samples, now_s)

    def stats(self) -> ReceiveStats:
        counts = self._buffer.counts
        return ReceiveStats(
            packets_received=counts.received,
            packets_lost=counts.lost,
            concealed_ms=self._concealed / _MS,
            dropped_ms=(self._dropped + counts.late_samples + counts.overflowed_samples) / _MS,
            before_ready_ms=self._before_ready / _MS,
            jitter_ms=counts.jitter_s * 1000,
            buffer_ms=(self._buffer.waiting() + len(self._ready)) / _MS,
        )

    def _start(self, samples: int, now_s: float) -> None:
        """Choose the reader's first place: this frame ends with the newest packet that was here in
        good time, so that every later one will be too."""
        end = self._buffer.end_of_arrived(now_s - SAFETY_S)
        self._before_ready += self._buffer.seek(end - samples)
        self._before_ready += self._buffer.counts.overflowed_samples
        self._buffer.counts.overflowed_samples = 0

    def _shed_backlog(self, samples: int) -> None:
        excess = self._buffer.waiting() + len(self._ready) - samples - MAX_BACKLOG
        if excess > 0:
            self._dropped += self._buffer.pass_over(excess)

    def _next(self, wanted: int) -> Pcm:
        """The next stretch of audio, at least one sample of it."""
        self._settle_hold()
        stretch = self._buffer.read(wanted)
        if isinstance(stretch, Played):
            if self._ends_talk(stretch.packet):
                # Decoding it would start concealment of whatever was last heard.
                self._active = False
                return self._fill(stretch.packet.length)[stretch.skip :]
            self._since_packet = 0
            return self._decode(stretch)[stretch.skip :]
        if isinstance(stretch, Lost):
            return self._bridge(stretch)
        if isinstance(stretch, Quiet):
            return self._fill(stretch.samples)
        assert isinstance(stretch, Nothing)
        if self._active and self._held < MAX_HOLD:
            self._held += wanted
        else:
            self._buffer.pass_over(wanted)
        return self._fill(wanted)

    def _settle_hold(self) -> None:
        """What was filled while waiting stands for whatever turned out never to come."""
        start = self._buffer.next_start()
        if not self._held or start is None:
            return
        assert self._buffer.head is not None
        gap = start - self._buffer.head
        if gap > 0:
            self._buffer.pass_over(min(gap, self._held))
        self._held = 0

    def _ends_talk(self, packet: MediaPacket) -> bool:
        return self._codecs[packet.payload_type] is OPUS and len(packet.payload) <= _DTX_BYTES

    def _decode(self, played: Played) -> Pcm:
        packet = played.packet
        decoder = self._decoder_for(packet.payload_type)
        try:
            pcm = decoder.decode(packet.payload)
        except CodecError as error:
            self._undecodable += 1
            if self._undecodable == 1:
                logger.warning("an audio packet could not be decoded: %s", error)
            self._concealed += packet.length
            return decoder.conceal(packet.length)
        if len(pcm) != packet.length:
            pcm = np.resize(pcm, packet.length) if len(pcm) else silence(packet.length)
        self._active = dbfs(pcm) > _ACTIVE_DBFS
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
        tail = self._decoder.recover(following.payload, recoverable)
        if tail is None or len(tail) != recoverable:
            tail = self._stand_in(recoverable)
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
        return self._decoder.conceal(samples)

    def _decoder_for(self, payload_type: int) -> AudioDecoder:
        codec = self._codecs[payload_type]
        if self._decoder is None or self._decoder_codec is not codec:
            self._decoder, self._decoder_codec = decoder_for(codec), codec
        return self._decoder
