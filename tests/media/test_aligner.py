"""Reservations: nothing is lost by a failed step, nothing is heard twice after a good one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.engine.placing import PACKET_S
from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES
from rtc_agent.media.aligner import FrameAligner
from rtc_agent.media.audio_receiver import AudioReceiver
from tests.media.simulation import RECEIVED, noise, send
from tests.virtual_clock import VirtualClock


class Call:
    """A caller, sending all the time, and the aligner at work."""

    def __init__(self, seconds: float) -> None:
        self.clock = VirtualClock(0.007)
        self.receiver = AudioReceiver(RECEIVED)
        self.aligner = FrameAligner(self.clock, self.receiver)
        self._sent = send(noise(seconds))

    def tick(self) -> None:
        self.clock.advance(FRAME_S)
        while self._sent and self._sent[0][0] <= self.clock.now():
            at, packet = self._sent.pop(0)
            self.receiver.push(packet, at)


def test_without_a_media_path_frames_are_silent() -> None:
    aligner = FrameAligner(VirtualClock())
    frame = aligner.reserve()
    assert frame.shape == (FRAME_SAMPLES,) and not frame.any()
    aligner.commit()
    aligner.skip()


def test_a_failed_step_gets_the_same_frame_again() -> None:
    call = Call(2)
    for _ in range(5):
        call.tick()
        call.aligner.reserve()
        call.aligner.commit()
    call.tick()
    frame = call.aligner.reserve()
    call.aligner.rollback()
    call.tick()
    again = call.aligner.reserve()
    assert np.array_equal(frame, again)
    call.aligner.commit()
    following = call.aligner.reserve()
    assert not np.array_equal(frame, following)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["step", "fail", "skip"]), min_size=1, max_size=30))
def test_frames_are_the_callers_audio_in_order(script: list[str]) -> None:
    """Whatever the engine does, what it hears is consecutive frames of one stream, less those it
    skipped."""
    script = ["step", *script]
    reference = Call(4)
    frames = []
    for _ in script:
        reference.tick()
        frames.append(reference.aligner.reserve())
        reference.aligner.commit()
    call = Call(4)
    at = 0
    for action in script:
        call.tick()
        if action == "skip":
            call.aligner.skip()
            at += 1
            continue
        frame = call.aligner.reserve()
        behind = call.clock.now() - 0.007 - FRAME_S * (at + 1)
        if behind <= 2 * FRAME_S + 1e-9:
            np.testing.assert_allclose(frame, frames[at], atol=2e-3)
        if action == "fail":
            call.aligner.rollback()
        else:
            call.aligner.commit()
            at += 1
        if behind > FRAME_S:
            break


def test_an_engine_that_stops_for_seconds_is_not_behind_for_long() -> None:
    """The caller's audio of the freeze is given up down to two frames."""
    call = Call(12)
    for _ in range(10):
        call.tick()
        call.aligner.reserve()
        call.aligner.commit()
    for _ in range(62):
        call.tick()
    for _ in range(3):
        call.tick()
        call.aligner.reserve()
        call.aligner.commit()
    assert call.receiver.stats().buffer_ms <= 160 + 20
    assert call.receiver.stats().dropped_ms > 4_500


def test_it_tells_when_packets_are_due_once_there_is_a_media_path() -> None:
    assert FrameAligner(VirtualClock()).packet_times(1) is None
    call = Call(1)
    assert call.aligner.packet_times(1) is None
    call.tick()
    times = call.aligner.packet_times(3)
    assert times is not None and times.every_s == PACKET_S
    assert times.due_s / PACKET_S == pytest.approx(round(times.due_s / PACKET_S))
