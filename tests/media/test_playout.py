"""The sent stream: timestamps, pacing, stalls, clearing, and never an exception."""

from __future__ import annotations

import asyncio
from fractions import Fraction

import av
import numpy as np
import pytest
from aiortc.mediastreams import MediaStreamError
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES, Pcm
from rtc_agent.media.codecs import CODECS, OPUS, PACKET_S, PCMU, CodecInfo, decoder_for
from rtc_agent.media.playout import PlayoutTrack
from rtc_agent.media.playout_buffer import MAX_QUEUED, PlayoutBuffer
from tests.media.simulation import delay_of, noise
from tests.virtual_clock import VirtualClock


class Listener:
    """Takes packets as aiortc's sender does and notes when each was sent."""

    def __init__(self, track: PlayoutTrack, clock: VirtualClock) -> None:
        self.packets: list[tuple[float, av.Packet]] = []
        self._track, self._clock = track, clock
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            packet = await self._track.recv()
            self.packets.append((self._clock.now(), packet))

    async def stop(self) -> None:
        self._track.stop()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def pts(self) -> np.ndarray:
        return np.array([p.pts for _, p in self.packets])

    def times(self) -> np.ndarray:
        return np.array([t for t, _ in self.packets])

    def heard(self, codec: CodecInfo) -> Pcm:
        decoder = decoder_for(codec)
        return np.concatenate([decoder.decode(bytes(p)) for _, p in self.packets])


def make(codec: CodecInfo = PCMU) -> tuple[VirtualClock, PlayoutTrack, Listener]:
    clock = VirtualClock()
    track = PlayoutTrack(codec, clock)
    return clock, track, Listener(track, clock)


@pytest.mark.parametrize("name", list(CODECS))
async def test_timestamps_step_by_a_packet_and_follow_the_clock(name: str) -> None:
    codec = CODECS[name]
    clock, track, listener = make(codec)
    for frame in range(25):
        track.play(noise(FRAME_S, frame))
        await clock.run_for(FRAME_S)
    await listener.stop()
    assert set(np.diff(listener.pts())) == {codec.timestamp_step}
    np.testing.assert_allclose(np.diff(listener.times())[1:], PACKET_S, atol=0.011)
    assert listener.packets[0][1].time_base == Fraction(1, codec.clock_rate)
    assert len(listener.packets) == pytest.approx(100, abs=1)
    assert track.buffer.underruns == 0


async def test_a_producer_that_stalls_leaves_no_burst_and_no_lag() -> None:
    clock, track, listener = make()
    source = noise(4)
    frames = source.reshape(-1, FRAME_SAMPLES)
    for frame in frames[:25]:
        track.play(frame)
        await clock.run_for(FRAME_S)
    # Half a second without anything, then the stalled frames' time is gone, not owed.
    await clock.run_for(0.5)
    for frame in frames[25:]:
        track.play(frame)
        await clock.run_for(FRAME_S)
    await listener.stop()
    assert set(np.diff(listener.pts())) == {160}
    assert np.diff(listener.times()).min() > 0.009
    heard = listener.heard(PCMU)
    before = delay_of(heard, source, 30_000)
    after = delay_of(heard, source, len(heard) - 20_000)
    assert abs(after - before - 12_000) <= 480
    assert track.buffer.underruns == 1


async def test_a_process_that_stalls_steps_its_timestamps() -> None:
    """Slots that passed while nothing ran are not sent late in one burst."""
    clock, track, listener = make()
    for _ in range(10):
        track.play(noise(FRAME_S))
        await clock.run_for(FRAME_S)
    count = len(listener.packets)
    clock.advance(0.5)
    await clock.run_for(0.1)
    await listener.stop()
    assert len(listener.packets) - count <= 7
    elapsed = listener.times() - listener.times()[0]
    owed = listener.pts() / 8_000
    assert np.abs(elapsed - owed).max() <= PACKET_S + 0.021
    steps = np.diff(listener.pts())
    assert (steps % 160 == 0).all() and (steps > 0).all()


async def test_a_small_stall_loses_no_packet() -> None:
    clock, track, listener = make()
    for frame in range(10):
        track.play(noise(FRAME_S, frame))
        await clock.run_for(FRAME_S)
        if frame == 5:
            clock.advance(0.03)
    await listener.stop()
    assert set(np.diff(listener.pts())) == {160}


async def test_silence_flows_before_there_is_audio() -> None:
    clock, track, listener = make()
    await clock.run_for(1.0)
    await listener.stop()
    assert len(listener.packets) == pytest.approx(50, abs=1)
    assert np.abs(listener.heard(PCMU)).max() < 1e-3
    assert track.buffer.underruns == 0


async def test_flush_is_silent_within_40_ms() -> None:
    clock, track, listener = make()
    for frame in range(12):
        track.play(noise(FRAME_S, frame))
        await clock.run_for(FRAME_S if frame < 11 else 0.005)
    asked = clock.now()
    track.flush()
    await clock.run_for(0.3)
    await listener.stop()
    heard = listener.heard(PCMU).reshape(-1, 480)
    after = [block for (t, _), block in zip(listener.packets, heard, strict=True) if t > asked]
    assert np.abs(np.concatenate(after[1:])).max() < 2e-2
    assert np.abs(np.concatenate(after[2:])).max() < 1e-3
    assert track.buffer.underruns == 0


class BrokenEncoder:
    def encode(self, pcm: Pcm) -> bytes:
        raise RuntimeError("no")

    def expect_loss(self, percent: int) -> None:
        pass


async def test_a_bad_frame_is_silence_and_the_next_one_is_heard() -> None:
    clock, track, listener = make(OPUS)
    track.play(noise(FRAME_S))
    await clock.run_for(FRAME_S)
    track._encoder = BrokenEncoder()
    for frame in range(5):
        track.play(noise(FRAME_S, frame))
        await clock.run_for(FRAME_S)
    assert not listener.task.done()
    await listener.stop()
    assert track.failed_packets == 1
    assert set(np.diff(listener.pts())) == {960}
    assert np.abs(listener.heard(OPUS)[-1_000:]).max() > 0.05


async def test_nan_and_clipping_samples_are_survived() -> None:
    clock, track, listener = make()
    track.play(np.full(FRAME_SAMPLES, np.nan, np.float32))
    track.play(np.full(FRAME_SAMPLES, 40.0, np.float32))
    await clock.run_for(0.3)
    assert not listener.task.done()
    await listener.stop()
    assert track.bad_frames == 1
    assert np.isfinite(listener.heard(PCMU)).all()


async def test_a_stopped_track_says_so() -> None:
    _, track, listener = make()
    await listener.stop()
    with pytest.raises(MediaStreamError):
        await track.recv()


def drain(buffer: PlayoutBuffer, start_s: float, packets: int) -> Pcm:
    parts = [buffer.pop(start_s + i * PACKET_S) for i in range(packets)]
    return np.concatenate([np.empty(0, np.float32), *parts])


@settings(deadline=None)
@given(st.lists(st.integers(1, 4_000), min_size=1, max_size=12))
def test_what_goes_in_comes_out(sizes: list[int]) -> None:
    """Any lengths of push: the samples come out in order, once."""
    source = noise(sum(sizes) / 24_000 + 0.01)[: sum(sizes)]
    buffer = PlayoutBuffer(cushion_s=0)
    pieces = np.split(source, np.cumsum(sizes)[:-1])
    for piece in pieces:
        buffer.push(piece, 0.0)
    kept = source[-MAX_QUEUED:]
    heard = drain(buffer, 0.0, len(kept) // 480)
    # The end that does not fill a packet is faded out over its last 5 ms.
    np.testing.assert_array_equal(heard, kept[: len(heard)])


def test_the_cushion_forms_again_after_running_empty() -> None:
    buffer = PlayoutBuffer(cushion_s=0.02)
    buffer.push(noise(0.08), 0.0)
    heard = drain(buffer, 0.0, 6)
    assert not heard[:480].any() and heard[480:2_300].all()
    assert buffer.underruns == 1
    buffer.push(noise(0.08), 0.125)
    again = drain(buffer, 0.12, 3)
    # Due at 145 ms: 5 ms into the second of these packets.
    assert not again[:600].any() and again[601:].all()


def test_the_queue_is_bounded_by_its_oldest() -> None:
    buffer = PlayoutBuffer(cushion_s=0)
    source = noise(3)
    for i in range(0, len(source), FRAME_SAMPLES):
        buffer.push(source[i : i + FRAME_SAMPLES], 0.0)
    assert buffer.queued <= MAX_QUEUED
    assert buffer.dropped == len(source) - MAX_QUEUED
    np.testing.assert_array_equal(buffer.pop(0.0), source[-MAX_QUEUED:][:480])


def test_an_ending_is_soft() -> None:
    buffer = PlayoutBuffer(cushion_s=0)
    buffer.push(np.ones(700, np.float32), 0.0)
    heard = drain(buffer, 0.0, 3)
    assert np.abs(np.diff(heard[1:])).max() < 0.05
