"""What a tick hears of a caller: delay, loss, jitter, pauses, restarts."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, Pcm
from rtc_agent.media import audio_receiver, libopus
from rtc_agent.media.aiortc_shim import RtpPacket
from rtc_agent.media.audio_receiver import MAX_BACKLOG, AudioReceiver
from rtc_agent.media.levels import dbfs
from tests.media.simulation import (
    PAYLOAD_TYPES,
    RECEIVED,
    WirePacket,
    delay_of,
    hear,
    noise,
    read_speech,
    send,
    similarity,
)

FIRST_TICK_S = 0.047
CODEC_DELAY = 119
"""Samples that encoding to PCMU at 8 kHz and back takes."""


MOST_DELAY = 7_200
"""Two frames that wait, the one in hand, and 60 ms for packets, codec and a lag on its way."""


def heard_delay_ms(heard: Pcm, source: Pcm, at: int) -> float:
    """Mouth to frame: from a sample's time at the caller to the end of the frame that has it,
    less the frame itself."""
    start_of_first_frame = round((FIRST_TICK_S - FRAME_S) * SAMPLE_RATE)
    lag = delay_of(heard, source, at)
    return (lag + start_of_first_frame + 0) / SAMPLE_RATE * 1000


def likeness(heard: Pcm, source: Pcm, low: int, high: int) -> float:
    """Of the samples low … high of what was heard with the source: the mean over pieces of 100 ms,
    each at its own delay, which may be on its way to another."""
    pieces = []
    for at in range(low, high - 2_399, 2_400):
        if dbfs(heard[at : at + 2_400]) < -45:
            continue
        lag = delay_of(heard, source, at, 2_400, most=MOST_DELAY)
        pieces.append(similarity(heard[at : at + 2_400], source[at - lag :], 0))
    return float(np.mean(pieces))


def test_nothing_arrived_is_silence() -> None:
    receiver = AudioReceiver(RECEIVED)
    assert not receiver.read(FRAME_SAMPLES, 1.0).any()


@pytest.mark.parametrize("codec", ["opus", "PCMU", "PCMA", "G722"])
def test_audio_ends_at_the_tick(codec: str) -> None:
    """On a quiet path the newest audio in a frame is at most one packet and the safety old."""
    source = noise(4)
    receiver = AudioReceiver(RECEIVED)
    heard = hear(receiver, send(source, codec), 48, first_tick_s=FIRST_TICK_S)
    delay = heard_delay_ms(heard, source, 30 * FRAME_SAMPLES)
    # Packets leave at 0, 20, 40 … ms; ticks are 7 ms after one; the codec adds 4 to 6.5 ms.
    assert 7 <= delay <= 7 + 7.5
    assert receiver.stats().concealed_ms == 0
    assert receiver.stats().dropped_ms == 0


@pytest.mark.parametrize("phase_ms", [0.5, 2.9, 3.1, 10, 19.5])
def test_a_packet_that_barely_made_it_is_not_counted_on(phase_ms: float) -> None:
    source = noise(4)
    receiver = AudioReceiver(RECEIVED)
    first = 0.100 + phase_ms / 1000
    heard = hear(receiver, send(source), 48, first_tick_s=first)
    assert receiver.stats().concealed_ms == 0
    lag_ms = delay_of(heard, source, 40_000) / 24 + (first - FRAME_S) * 1000 - CODEC_DELAY / 24
    assert 3 <= lag_ms <= 24


def test_the_first_word_is_heard() -> None:
    """Audio from the first packet on is in the first frames, behind leading silence."""
    source = noise(2)
    heard = hear(AudioReceiver(RECEIVED), send(source), 24, first_tick_s=0.047)
    lag = delay_of(heard, source, 10_000)
    assert similarity(heard[:12_000], source, lag) > 0.95
    assert not heard[: max(0, lag - CODEC_DELAY - 60)].any()


def test_samples_equal_elapsed_time_whatever_is_lost() -> None:
    source = noise(10)
    rng = random.Random(5)
    arrivals = [a for a in send(source) if rng.random() > 0.05]
    receiver = AudioReceiver(RECEIVED)
    heard = hear(receiver, arrivals, 124)
    early, late = (delay_of(heard, source, at, 9_600) for at in (30_000, 220_000))
    assert abs(late - early) <= 2
    lost = 500 - len(arrivals)
    assert receiver.stats().packets_lost == pytest.approx(lost, abs=2)
    assert receiver.stats().concealed_ms == pytest.approx(20 * lost, abs=60)


def test_one_lost_packet_costs_no_delay() -> None:
    source = noise(6)
    arrivals = send(source)
    del arrivals[100]
    heard = hear(AudioReceiver(RECEIVED), arrivals, 74)
    before = delay_of(heard, source, 30_000)
    after = delay_of(heard, source, 60_000)
    assert abs(after - before) <= 1


@pytest.mark.parametrize("lost_index", [4, 5, 6, 7])
def test_opus_loss_is_repaired_by_its_redundancy(lost_index: int) -> None:
    """Every twentieth packet of real speech is lost, at each place within a frame: once losses are
    seen, the reader waits for the packet behind. Concealment alone leaves 0.95 here."""
    source = np.tile(read_speech(), 3)
    ticks = len(source) // FRAME_SAMPLES - 1
    sent = send(source, "opus")
    clean = hear(AudioReceiver(RECEIVED), sent, ticks)
    kept = [a for i, a in enumerate(sent) if i % 20 != lost_index]
    receiver = AudioReceiver(RECEIVED)
    repaired = hear(receiver, kept, ticks)
    assert likeness(repaired, clean, 5 * SAMPLE_RATE, 13 * SAMPLE_RATE) > 0.975
    assert receiver.stats().recovered_ms > receiver.stats().concealed_ms
    assert receiver.stats().packets_lost == pytest.approx(len(sent) - len(kept), abs=3)


def test_reordered_and_repeated_packets_are_as_good_as_new() -> None:
    source = noise(4)
    arrivals = send(source)
    # Every tenth is overtaken by its successor, every seventh comes twice.
    shuffled = [(t + 0.021 if i % 10 == 3 else t, p) for i, (t, p) in enumerate(arrivals)]
    shuffled += [(t + 0.004, p) for i, (t, p) in enumerate(arrivals) if i % 7 == 0]
    receiver = AudioReceiver(RECEIVED)
    heard = hear(receiver, shuffled, 48, first_tick_s=0.075)
    assert likeness(heard, source, 20_000, 80_000) > 0.97
    assert receiver.stats().packets_lost == 0


def test_a_late_packet_is_waited_for_and_played() -> None:
    """The network stalls for 60 ms inside speech: all that was said is heard."""
    source = noise(4)
    arrivals = [(max(t, 2.06) if 2.0 <= t < 2.06 else t, p) for t, p in send(source)]
    receiver = AudioReceiver(RECEIVED)
    heard = hear(receiver, arrivals, 49)
    assert receiver.stats().dropped_ms == 0
    assert likeness(heard, source, 60_000, 80_000) > 0.9


def test_after_an_outage_the_lag_is_bounded() -> None:
    """Nothing for a second, then all of it at once."""
    source = noise(6)
    arrivals = [(max(t, 3.0) if 2.0 <= t < 3.0 else t, p) for t, p in send(source)]
    receiver = AudioReceiver(RECEIVED)
    heard = hear(receiver, arrivals, 74)
    before, after = delay_of(heard, source, 30_000), delay_of(heard, source, 110_000)
    assert after - before <= MAX_BACKLOG
    assert receiver.stats().dropped_ms > 500


def dtx_call(pause_s: int, dtx: bool) -> tuple[Pcm, Pcm, list[tuple[float, WirePacket]]]:
    """Speech, a pause, speech; with `dtx`, what libopus marks as unneeded is not sent."""
    library = libopus.load()
    assert library is not None
    encoder = libopus.LibopusEncoder(library, bitrate=32_000, complexity=5, expected_loss_percent=0)
    encoder._set(4016, int(dtx))
    hiss = noise(pause_s, 3, level=0.0003)
    first, second = noise(2, 1), noise(2, 2)
    source = np.concatenate([first, hiss, second])
    sent = []
    sequence = 100
    for i in range(len(source) // 480):
        payload = encoder.encode(source[i * 480 : (i + 1) * 480])
        if not dtx or len(payload) > 2:
            sent.append(((i + 1) * 0.02, WirePacket(sequence, 5_000 + i * 960, payload)))
            sequence += 1
    return first, second, sent


def test_a_pause_in_transmission_keeps_time() -> None:
    """Ten seconds of discontinuous transmission are exactly 125 frames; nothing is held back."""
    first, second, sent = dtx_call(10, dtx=True)
    assert len(sent) < 350
    receiver = AudioReceiver(RECEIVED)
    heard = hear(receiver, sent, 174)
    _, _, all_sent = dtx_call(10, dtx=False)
    steady = hear(AudioReceiver(RECEIVED), all_sent, 174)
    assert len(heard) == len(steady)
    early = delay_of(heard, first, 20_000)
    tail, steady_tail = heard[12 * SAMPLE_RATE :], steady[12 * SAMPLE_RATE :]
    assert abs(delay_of(tail, second, 20_000) - early) <= 1
    assert delay_of(steady_tail, second, 20_000) == delay_of(tail, second, 20_000)
    assert np.abs(heard[3 * SAMPLE_RATE : 11 * SAMPLE_RATE]).max() < 0.01
    # The last word is in the same frame as without it.
    end = 2 * SAMPLE_RATE + early
    assert similarity(heard[end - 4_800 : end - 200], steady[end - 4_800 :], 0) > 0.99
    assert receiver.stats().packets_lost == 0


def test_a_pause_that_begins_in_a_loud_moment_is_not_droned_over() -> None:
    """The sender says "no more" right after loud sound, each 400 ms."""
    speech = noise(2)
    packets = list(send(speech, "opus"))
    for k in range(25):
        at = 100 + k * 20
        packets.append(((at + 1) * 0.02, WirePacket(200 + k, 5_000 + at * 960, b"\xf8")))
    heard = hear(AudioReceiver(RECEIVED), packets, 150)
    assert np.abs(heard[3 * SAMPLE_RATE :]).max() == 0


def test_joining_muted_and_leaving_mute() -> None:
    """Three minutes of no packet at all are silence; the first word after them is in time."""
    source = noise(2)
    receiver = AudioReceiver(RECEIVED)
    heard = hear(receiver, send(source, start_s=180.0), 2_275)
    assert not heard[: 179 * SAMPLE_RATE].any()
    tail = heard[180 * SAMPLE_RATE :]
    assert likeness(tail, source, 4_000, 40_000) > 0.95


def test_an_unmuted_caller_keeps_its_delay() -> None:
    """Ten seconds without a packet on a running RTP clock."""
    first, second = noise(2, 1), noise(2, 2)
    arrivals = send(first)
    arrivals += send(second, sequence=200, timestamp=5_000 + 600 * 160, start_s=12.0)
    heard = hear(AudioReceiver(RECEIVED), arrivals, 174)
    before = delay_of(heard, first, 20_000)
    after = delay_of(heard[12 * SAMPLE_RATE :], second, 20_000)
    assert abs(after - before) <= 1


def test_a_restarted_sender_is_heard_again() -> None:
    first, second = noise(4, 1), noise(4, 2)
    arrivals = send(first, sequence=100, timestamp=50_000)
    arrivals += send(second, sequence=250, timestamp=50_000 + 150 * 160, start_s=4.0)
    heard = hear(AudioReceiver(RECEIVED), arrivals, 98)
    tail = heard[4 * SAMPLE_RATE :]
    assert likeness(tail, second, 6_000, 80_000) > 0.95


def test_a_change_of_codec_in_mid_call() -> None:
    first, second = noise(2, 1), noise(2, 2)
    arrivals = send(first, "opus")
    arrivals += send(second, "PCMU", sequence=200, timestamp=77, start_s=2.0)
    heard = hear(AudioReceiver(RECEIVED), arrivals, 48)
    tail = heard[2 * SAMPLE_RATE :]
    assert likeness(tail, second, 4_000, 40_000) > 0.95


def test_empty_and_broken_payloads_end_nothing() -> None:
    source = noise(3)
    arrivals = send(source, "opus")
    arrivals[50] = (arrivals[50][0], WirePacket(150, 5_000 + 50 * 960, b""))
    arrivals[60] = (arrivals[60][0], WirePacket(160, 5_000 + 60 * 960, b"\xff"))
    arrivals[70] = (arrivals[70][0], WirePacket(170, 5_000 + 70 * 960, bytes(range(60, 90))))
    receiver = AudioReceiver(RECEIVED)
    heard = hear(receiver, arrivals, 36)
    assert likeness(heard, source, 45_000, 65_000) > 0.8


def test_speech_before_the_engine_was_ready_is_counted() -> None:
    source = noise(3)
    receiver = AudioReceiver(RECEIVED)
    hear(receiver, send(source), 12, first_tick_s=2.0)
    assert receiver.stats().before_ready_ms > 1_000
    assert receiver.stats().dropped_ms == 0


def test_skipped_time_is_gone_and_counted() -> None:
    source = noise(4)
    receiver = AudioReceiver(RECEIVED)
    arrivals = send(source)
    heard = hear(receiver, [a for a in arrivals if a[0] < 1.6], 20)
    for t, packet in arrivals:
        if 1.6 <= t < 1.727:
            receiver.push(packet, t)
    receiver.skip(FRAME_SAMPLES)
    frame = receiver.read(FRAME_SAMPLES, 0.047 + 21 * FRAME_S)
    assert similarity(frame, source[21 * 1_920 - delay_of(heard, source, 20_000) :], 0) > 0.95
    assert receiver.stats().dropped_ms == 80


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 65_535),
            st.integers(0, 2**32 - 1),
            st.sampled_from([1, 2, 3]),
            st.sampled_from([96, 0, 8, 9, 101]),
            st.binary(max_size=80),
            st.integers(0, 40),
        ),
        max_size=200,
    )
)
@example(  # The caller is heard with all the delay that there may be, and a little more to come.
    [(0, 0, 1, 96, b"", gap) for gap in (0, 8, 10, 18, 40)]
    + [(0, 0, 1, 96, b"\x00", 0)]
    + [(0, 0, 1, 96, b"", gap) for gap in (9, 10, 22, 27)]
    + [(0, 0, 2, 96, b"\x00", 12), (0, 0, 1, 96, b"", 17), (0, 0, 1, 96, b"", 31)]
    + [(0, 0, 1, 0, b"\x00", 10), (0, 1_433, 1, 0, b"\x00", 7)]
)
def test_no_stream_of_packets_does_harm(
    wire: list[tuple[int, int, int, int, bytes, int]],
) -> None:
    """Numbers, sources, types and payloads at random: frames keep coming, the buffer stays small,
    and an honest caller is heard again right after."""
    receiver = AudioReceiver(RECEIVED)
    now, tick = 0.0, 0.08
    for sequence, timestamp, ssrc, payload_type, payload, milliseconds in wire:
        now += milliseconds / 1_000
        while tick <= now:
            frame = receiver.read(FRAME_SAMPLES, tick)
            assert frame.shape == (FRAME_SAMPLES,) and np.isfinite(frame).all()
            tick += FRAME_S
        receiver.push(WirePacket(sequence, timestamp, payload, payload_type, ssrc), now)
        assert receiver.stats().buffer_ms <= 2_200
    source = noise(2)
    arrivals = send(source, ssrc=9, start_s=now)
    heard = hear(receiver, arrivals, 24, first_tick_s=tick)
    # It may still be catching up, at a rate that noise shows.
    assert likeness(heard, source, 24_000, 38_000) > 0.7


class Watched(AudioReceiver):
    """Notes how many packets it had decoded before their tick."""

    most_ahead = 0

    def push(self, packet: RtpPacket, now_s: float) -> None:
        super().push(packet, now_s)
        self.most_ahead = max(self.most_ahead, len(self._ahead))


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 1_000), st.sampled_from(["opus", "G722"]), st.sampled_from([0.0, 0.03, 0.2]))
def test_when_packets_are_decoded_is_not_to_be_heard(seed: int, codec: str, bad: float) -> None:
    """Whatever is lost, held up, doubled, paused or unreadable: decoding packets as they come gives
    the samples that decoding them at the tick gives."""
    draw = random.Random(seed)
    packets = []
    for number, (sent_s, packet) in enumerate(send(read_speech()[: 40 * FRAME_SAMPLES], codec)):
        if draw.random() < bad or (bad and 60 < number % 100 < 75):
            continue
        if draw.random() < bad / 4:
            packet = WirePacket(**{**vars(packet), "payload": packet.payload[:1] + b"\xff" * 7})
        for _ in range(1 + (draw.random() < bad)):
            packets.append((sent_s + 0.02 * draw.random() + bad * draw.random(), packet))
    packets.sort(key=lambda arrival: arrival[0])
    heard, ahead = [], []
    with pytest.MonkeyPatch.context() as patch:
        for limit in (audio_receiver.AHEAD, -1):
            patch.setattr(audio_receiver, "AHEAD", limit)
            receiver = Watched(RECEIVED)
            pcm = hear(receiver, packets, 38, first_tick_s=0.107)
            # What is given up has been decoded or not; what comes next may differ for that.
            assume(receiver._dropped == 0)
            heard.append((pcm, receiver.stats()))
            ahead.append(receiver.most_ahead)
    np.testing.assert_array_equal(heard[0][0], heard[1][0])
    assert heard[0][1] == heard[1][1]
    assert ahead[0] > 0 and ahead[1] == 0


@pytest.mark.parametrize("packets_late", [(), (0, 1), (2,)])
@pytest.mark.parametrize("packet_ms", [20, 60])
def test_it_tells_when_packets_are_due(packets_late: tuple[int, ...], packet_ms: int) -> None:
    """By the soonest one, whichever of the others were held up; also before anything is read."""
    receiver = AudioReceiver(RECEIVED)
    assert receiver.packet_times(1) is None
    every_s = packet_ms / 1_000
    samples = packet_ms * 8
    for number in range(4):
        assert receiver.packet_times(number + 1) is None
        packet = WirePacket(number, number * samples, bytes(samples), PAYLOAD_TYPES["PCMU"])
        receiver.push(packet, 7.0 + number * every_s + 0.009 * (number in packets_late))
        assert receiver.packet_times(number + 1) is not None
    times = receiver.packet_times(3)
    assert times is not None and times.every_s == pytest.approx(every_s)
    assert (times.due_s - 7.0) / every_s == pytest.approx(4)
