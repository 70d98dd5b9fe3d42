"""Caller audio cut into frames that end at the tick."""

from __future__ import annotations

from rtc_agent.clock import Clock
from rtc_agent.engine.placing import PacketTimes
from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES, Pcm
from rtc_agent.media.audio_receiver import AudioReceiver
from rtc_agent.media.codecs import silence


class FrameAligner:
    """The `PacketedSource` of a call.

    There is no clock of its own: a frame is whatever the receiver has up to the moment of the tick,
    so that audio never waits for a frame boundary. A frame given out stays reserved until the step
    is known to have succeeded.
    """

    in_packets = True

    def __init__(self, clock: Clock, receiver: AudioReceiver | None = None) -> None:
        self._clock = clock
        self.receiver = receiver
        """None until the media path is there; frames are silent until then."""
        self._reserved: Pcm | None = None
        self._put_back = False
        self.skipped_frames = 0

    def packet_times(self, packets: int) -> PacketTimes | None:
        """As `PacketedSource.packet_times`."""
        return None if self.receiver is None else self.receiver.packet_times(packets)

    def reserve(self) -> Pcm:
        if self._reserved is not None and self._put_back:
            self._put_back = False
            return self._reserved
        if self.receiver is None:
            self._reserved = silence(FRAME_SAMPLES)
        else:
            self._reserved = self.receiver.read(FRAME_SAMPLES, self._clock.now())
        return self._reserved

    def commit(self) -> None:
        self._reserved = None
        self._put_back = False

    def rollback(self) -> None:
        self._put_back = self._reserved is not None

    def skip(self) -> None:
        self.skipped_frames += 1
        if self._put_back:
            self.commit()
        elif self.receiver is not None:
            self.receiver.skip(FRAME_SAMPLES)

    @property
    def skipped_s(self) -> float:
        """Seconds of caller audio that no tick heard."""
        return self.skipped_frames * FRAME_S
