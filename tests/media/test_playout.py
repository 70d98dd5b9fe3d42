"""The sent stream: timestamps, pacing, stalls, clearing, and never an exception."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
from rtc_agent.media.playout_buffer import MAX_BEHIND, MAX_QUEUED, PlayoutBuffer
from tests.media.simulation import delay_of, noise, similarity
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


async def test_a_process_that_stalls_leaves_no_lag() -> None:
    """What was due while nothing ran is not sent late, not even if the engine catches up by two
    frames at once."""
    clock, track, listener = make()
    source = noise(4.8)
    frames = source.reshape(-1, FRAME_SAMPLES)
    for frame in frames[:20]:
        track.play(frame)
        await clock.run_for(FRAME_S)
    waiting = track.buffer.queued
    clock.advance(5 * FRAME_S)
    track.play(frames[24])
    track.play(frames[25])
    await clock.run_for(FRAME_S)
    for frame in frames[26:]:
        track.play(frame)
        await clock.run_for(FRAME_S)
    await listener.stop()
    assert track.buffer.queued <= waiting + FRAME_SAMPLES + 480


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
@given(st.lists(st.integers(1, 1_900), min_size=1, max_size=12))
def test_what_goes_in_comes_out(sizes: list[int]) -> None:
    """Any lengths of push: the samples come out in order, once."""
    sizes = [size for i, size in enumerate(sizes) if sum(sizes[: i + 1]) <= MAX_BEHIND]
    source = noise(1)[: sum(sizes)]
    buffer = PlayoutBuffer(cushion_s=0)
    for piece in np.split(source, np.cumsum(sizes)[:-1]) if sizes else []:
        buffer.push(piece, 0.0)
    heard = drain(buffer, 0.0, len(source) // 480)
    np.testing.assert_array_equal(heard, source[: len(heard)])
    assert buffer.dropped == 0


def test_the_cushion_forms_again_after_running_empty() -> None:
    buffer = PlayoutBuffer(cushion_s=0.02)
    buffer.push(noise(0.08), 0.0)
    heard = drain(buffer, 0.0, 6)
    assert not heard[:480].any() and heard[480:2_300].all()
    assert buffer.underruns == 1
    assert buffer.cushion_s == pytest.approx(0.03)
    buffer.push(noise(0.08), 0.125)
    again = drain(buffer, 0.14, 3)
    # Due at 155 ms: 15 ms into the first of these packets.
    assert not again[:360].any() and again[361:].all()


def test_frames_that_pile_up_are_bounded_by_the_oldest() -> None:
    """Two frames and a cushion behind at most, whatever the producer does."""
    buffer = PlayoutBuffer(cushion_s=0)
    source = noise(3)
    for i in range(0, len(source), FRAME_SAMPLES):
        buffer.push(source[i : i + FRAME_SAMPLES], 0.0)
    assert buffer.queued <= MAX_BEHIND
    assert buffer.dropped == len(source) - MAX_BEHIND
    np.testing.assert_array_equal(buffer.pop(0.0)[200:], source[-MAX_BEHIND:][200:480])


def test_a_long_piece_is_played_whole_up_to_a_second() -> None:
    buffer = PlayoutBuffer(cushion_s=0)
    source = noise(1)
    buffer.push(source, 0.0)
    np.testing.assert_array_equal(drain(buffer, 0.0, 50), source)
    buffer.push(noise(3), 2.0)
    assert buffer.queued == MAX_QUEUED


def play_frames(
    seconds: float, lateness: Callable[[int], float], pcm: Callable[[int], Pcm] | None = None
) -> tuple[PlayoutBuffer, list[float]]:
    """Frames each 80 ms and late by so much; packets each 20 ms. What waits, at each packet."""
    buffer = PlayoutBuffer()
    frames = [(i * FRAME_S + lateness(i), i) for i in range(int(seconds / FRAME_S))]
    waits = []
    slot = 0.0
    while slot < seconds:
        while frames and frames[0][0] <= slot:
            at, i = frames.pop(0)
            buffer.push(noise(FRAME_S, i) if pcm is None else pcm(i), at)
        buffer.pop(slot)
        waits.append(buffer.queued / 24)
        slot += PACKET_S
    return buffer, waits


async def test_the_cushion_shrinks_to_what_the_ticks_need() -> None:
    """Punctual frames end up waiting some 4 ms, with nothing cut out of them."""
    clock, track, listener = make()
    sent = []
    source = noise(4.8)
    for frame in source.reshape(-1, FRAME_SAMPLES):
        sent.append(clock.now())
        track.play(frame)
        await clock.run_for(FRAME_S)
    await listener.stop()
    assert track.buffer.cushion_s < 0.006
    assert track.buffer.trimmed == 0 and track.buffer.underruns == 0
    heard = listener.heard(PCMU)
    at = len(heard) - 24_000
    lag = delay_of(heard, source, at)
    assert similarity(heard[at:], source[at - lag :], 0) > 0.95
    assert set(np.diff(listener.pts())) == {160}
    # From a frame's coming to the sending of its first packet, at the end of the call.
    starts = [t for t, _ in listener.packets]
    waits = [min(t - s for t in starts if t >= s) for s in sent[-10:]]
    assert max(waits) < 0.006


async def test_unpunctual_frames_keep_a_cushion() -> None:
    rng = np.random.default_rng(1)
    clock, track, listener = make()
    for _ in range(120):
        late = float(rng.uniform(0, 0.015))
        await clock.run_for(late)
        track.play(noise(FRAME_S))
        await clock.run_for(FRAME_S - late)
    underruns = track.buffer.underruns
    for _ in range(120):
        late = float(rng.uniform(0, 0.015))
        await clock.run_for(late)
        track.play(noise(FRAME_S))
        await clock.run_for(FRAME_S - late)
    await listener.stop()
    assert track.buffer.underruns == underruns <= 1


@pytest.mark.parametrize("seed", range(4))
async def test_a_call_that_begins_while_others_do_keeps_what_it_needs(seed: int) -> None:
    """Each opening delays a step by what one piece of it takes; ten callers come in a second."""
    rng = np.random.default_rng(seed)
    clock, track, listener = make()
    for frame in range(80):
        opening = frame % 6 == 5
        late = 0.006 + float(rng.uniform(0, 0.001)) + opening * float(rng.uniform(0.004, 0.012))
        await clock.run_for(late)
        track.play(noise(FRAME_S))
        await clock.run_for(FRAME_S - late)
    await listener.stop()
    assert track.buffer.underruns == 0


async def test_frames_within_40_ms_of_their_time_do_not_run_dry_for_long() -> None:
    """Bursty ticks, ±40 ms: the cushion grows to hold them."""
    rng = np.random.default_rng(2)
    clock, track, listener = make()
    last = 0
    for second in range(20):
        last = track.buffer.underruns
        for _ in range(12):
            late = float(rng.uniform(0, 0.04))
            await clock.run_for(late)
            track.play(noise(FRAME_S))
            await clock.run_for(FRAME_S - late)
        if second < 4:
            first = track.buffer.underruns
    await listener.stop()
    assert first <= 4
    assert last - first <= 1


def test_a_backlog_is_worked_off_in_silence_alone() -> None:
    """Frames stall for 150 ms and come at once; speech stays whole, silence gets shorter."""
    speech = noise(FRAME_S, 5)
    quiet = noise(FRAME_S, 6, level=0.0005)

    def lateness(i: int) -> float:
        return max(0.0, (1.95 - i * FRAME_S)) if 1.8 <= i * FRAME_S < 1.95 else 0.0

    spoken, _ = play_frames(6, lateness, lambda i: speech)
    assert spoken.trimmed == 0
    mixed, waits = play_frames(6, lateness, lambda i: quiet if i % 10 < 3 else speech)
    assert mixed.trimmed > 0
    assert max(waits[-20:]) <= 110


def test_an_ending_is_soft() -> None:
    buffer = PlayoutBuffer(cushion_s=0)
    buffer.push(np.ones(700, np.float32), 0.0)
    heard = drain(buffer, 0.0, 3)
    assert np.abs(np.diff(heard[1:])).max() < 0.05
