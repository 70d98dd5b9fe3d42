"""The track that aiortc sends: ready packets, one each 20 ms of the monotonic clock."""

from __future__ import annotations

import logging
from fractions import Fraction

import av
import numpy as np
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack

from rtc_agent.clock import Clock
from rtc_agent.engine.stepper import Pcm
from rtc_agent.media.codecs import (
    PACKET_S,
    PACKET_SAMPLES,
    AudioEncoder,
    CodecInfo,
    encoder_for,
    silence,
)
from rtc_agent.media.playout_buffer import PlayoutBuffer

logger = logging.getLogger(__name__)

CATCH_UP_S = 0.100
"""A sender that is late by no more than this sends at once what it owes; later, it skips slots."""
MAX_STEP_S = 0.010
"""A packet is sent sooner or later than 20 ms after the one before by no more than this."""
MAX_SHIFT_S = 0.030
"""Timestamps may fall behind the clock, or run ahead of it, by so much."""


class PlayoutTrack(MediaStreamTrack):
    """Encodes what is queued, or silence, in slots of 20 ms that never depend on the producer.

    Timestamps count slots, and slots follow the clock: a producer that stalls leaves silence, and
    a process that stalls leaves a step of whole packets in the timestamps; neither leaves a burst.
    Nothing behind this has a pacer of its own.
    """

    kind = "audio"

    def __init__(
        self,
        codec: CodecInfo,
        clock: Clock,
        *,
        bitrate: int | None = None,
        cushion_s: float = 0.02,
        turn_s: float = 0.0,
    ) -> None:
        """See `PlayoutBuffer` for the last two."""
        super().__init__()
        self._clock = clock
        self._codec = codec
        self._bitrate = bitrate
        self._encoder: AudioEncoder = encoder_for(codec, bitrate=bitrate)
        self.buffer = PlayoutBuffer(cushion_s, turn_s)
        self._next_s: float | None = None
        self._slot = 0
        self._shift_s = 0.0
        self._aligned_to = 0
        self.packets_sent = 0
        self.failed_packets = 0
        """Packets of silence sent because encoding one of speech failed."""
        self.bad_frames = 0
        """Pieces of audio that held samples which are no numbers; those were silenced."""

    def play(self, pcm: Pcm) -> None:
        """Queue agent audio; see `PlayoutBuffer.push`."""
        if not np.isfinite(pcm).all():
            self.bad_frames += 1
            pcm = np.nan_to_num(pcm, nan=0.0, posinf=0.0, neginf=0.0)
        self.buffer.push(pcm, self._clock.now())

    def flush(self) -> None:
        """Forget queued audio: the packet after the next is silent at the latest."""
        self.buffer.clear()

    def expect_loss(self, percent: int) -> None:
        """Tell the encoder how much of what it sends is lost."""
        self._encoder.expect_loss(percent)

    async def recv(self) -> av.Packet:
        """The next packet as aiortc's own sender takes it."""
        payload, timestamp = await self.next_packet()
        packet = av.Packet(payload)
        packet.pts = timestamp
        packet.time_base = Fraction(1, self._codec.clock_rate)
        return packet

    async def next_packet(self) -> tuple[bytes, int]:
        """The next payload and its RTP timestamp, when its time has come. Raises MediaStreamError
        once stopped, and nothing else: a sender ends for good at the first exception."""
        if self.readyState != "live":
            raise MediaStreamError
        while True:
            slot_s = self._next_slot()
            await self._clock.sleep_until(slot_s)
            if self.buffer.due_s is None or self._aligned_to == self.buffer.starts:
                break
            # Audio began while this waited; once more, for a slot that suits it.
            self._next_s = slot_s
        if self.readyState != "live":
            raise MediaStreamError
        late = self._clock.now() - slot_s
        if late > CATCH_UP_S:
            # What was due in slots that passed while nothing ran would be a lag for good.
            missed = int(late / PACKET_S)
            self.buffer.pass_by(missed)
            self._slot += missed
            slot_s += missed * PACKET_S
        self._next_s = slot_s + PACKET_S
        payload, slot = self._encode(slot_s), self._slot
        self._slot += 1
        self.packets_sent += 1
        return payload, slot * self._codec.timestamp_step

    def _next_slot(self) -> float:
        """When the next packet is to be sent: 20 ms after the last, or shifted a little, so that
        packets begin where frames do and frames wait no longer than they must."""
        if self._next_s is None:
            return self._clock.now()
        due = self.buffer.due_s
        if due is None:
            return self._next_s
        if self._aligned_to != self.buffer.starts:
            # Its first sample is to be the first of a packet.
            self._aligned_to = self.buffer.starts
            offset = (due - self._next_s) % PACKET_S
            self._move(offset if offset <= PACKET_S / 2 else offset - PACKET_S)
        elif error := self.buffer.control.error_s():
            self.buffer.shift(self._move(-error))
        return self._next_s

    def _move(self, seconds: float) -> float:
        """Send everything from now on later or sooner, within bounds. Returns by how much."""
        assert self._next_s is not None
        seconds = min(max(seconds, -MAX_STEP_S), MAX_STEP_S)
        seconds = min(max(seconds, -MAX_SHIFT_S - self._shift_s), MAX_SHIFT_S - self._shift_s)
        self._next_s += seconds
        self._shift_s += seconds
        return seconds

    def _encode(self, slot_s: float) -> bytes:
        try:
            return self._encoder.encode(self.buffer.pop(slot_s))
        except Exception:
            self.failed_packets += 1
            if self.failed_packets == 1:
                logger.exception("agent audio could not be encoded; silence is sent in its place")
            self._encoder = encoder_for(self._codec, bitrate=self._bitrate)
            return self._encoder.encode(silence(PACKET_SAMPLES))
