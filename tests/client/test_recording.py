from __future__ import annotations

import random

import numpy as np
import pytest

from rtc_agent.client.packets import PacketLog
from rtc_agent.client.recording import Recording
from rtc_agent.media.codecs import CODECS, encoder_for
from tests.client.audio import best_match, speech

OPUS, PCMU = CODECS["opus"], CODECS["pcmu"]
SPOKEN = speech(2.0)
LOUD = int(np.abs(SPOKEN).reshape(-1, 480).max(axis=1).argmax())
"""A packet in the middle of a vowel."""


def sent(
    codec: str = "opus", *, lost: set[int] = frozenset(), pauses: dict[int, int] | None = None
) -> PacketLog:
    """Two seconds of speech, sent from moment 10 s on without any delay; `pauses` are packets'
    worth of time for which the sender sends nothing before a packet."""
    info, encoder = CODECS[codec.lower()], encoder_for(codec)
    log, place = PacketLog(), 0
    for number, block in enumerate(SPOKEN.reshape(-1, 480)):
        place += (pauses or {}).get(number, 0)
        payload = encoder.encode(block)
        if number not in lost:
            timestamp = place * info.timestamp_step + 0xFFFFF000
            log.add(10 + 0.02 * place, (65_500 + number) % 65_536, timestamp % (1 << 32), payload)
        place += 1
    return log


def recording(log: PacketLog, origin_s: float = 10.0, seconds: float = 2.0) -> Recording:
    return Recording(log.in_order(), OPUS, origin_s, round(seconds * 24_000))


def test_whole_stream_over_both_wraps() -> None:
    made = recording(sent())
    pcm = made.read()
    assert len(pcm) == 48_000
    match, delay = best_match(SPOKEN, pcm)
    assert match > 0.95 and delay == pytest.approx(156, abs=24)  # Opus's own 6.5 ms
    assert (made.heard.packets, made.heard.lost_packets, made.heard.silent_ms) == (100, 0, 0)


def test_reading_twice_counts_once() -> None:
    made = recording(sent(lost={30}))
    made.read()
    made.read()
    assert made.heard.lost_packets == 1


def test_origin_moves_the_recording_along_the_stream() -> None:
    later = recording(sent(), origin_s=10.5, seconds=1.0).read()
    assert best_match(SPOKEN[12_000:36_000], later)[1] == pytest.approx(156, abs=24)
    earlier = recording(sent(), origin_s=9.7, seconds=2.3)
    pcm = earlier.read()
    assert not pcm[: round(0.3 * 24_000)].any()
    assert best_match(SPOKEN, pcm)[1] == pytest.approx(7_200 + 156, abs=24)
    assert earlier.heard.longest_silent_ms == pytest.approx(300, abs=0.1)


def test_what_is_not_in_is_silence_to_the_full_length() -> None:
    made = recording(sent(), seconds=3.0)
    assert len(made.read()) == 72_000
    assert made.heard.silent_ms == pytest.approx(1_000)
    assert len(recording(PacketLog(), seconds=0.5).read()) == 12_000


@pytest.mark.parametrize("codec", ["opus", "PCMU"])
def test_losses_are_concealed_and_leave_time_alone(codec: str) -> None:
    lost = {20, 35, 36, LOUD}
    log = sent(codec, lost=lost)
    made = Recording(log.in_order(), CODECS[codec.lower()], 10.0, 48_000)
    pcm = made.read()
    assert made.heard.lost_packets == 4
    assert made.heard.concealed_ms == pytest.approx(80)
    assert made.heard.silent_ms == 0
    before = best_match(SPOKEN[:24_000], pcm[:24_000])
    after = best_match(SPOKEN[24_000:], pcm[24_000:])
    assert abs(before[1] - after[1]) <= 12 and min(before[0], after[0]) > 0.75
    hole = slice(LOUD * 480, LOUD * 480 + 480)
    assert np.abs(pcm[hole]).max() > 0.2 * np.abs(SPOKEN[hole]).max() > 0.005


def test_a_long_loss_is_not_made_up() -> None:
    made = recording(sent(lost=set(range(30, 60))))
    pcm = made.read()
    assert made.heard.lost_packets == 30
    assert made.heard.concealed_ms == pytest.approx(220)
    assert made.heard.longest_silent_ms == pytest.approx(380)
    assert best_match(SPOKEN[60 * 480 :], pcm[60 * 480 :])[1] == pytest.approx(156, abs=24)


def test_a_pause_of_the_sender_is_silence_and_no_loss() -> None:
    made = recording(sent(pauses={50: 25}), seconds=2.5)
    pcm = made.read()
    assert (made.heard.lost_packets, made.heard.silent_ms) == (0, pytest.approx(500))
    assert best_match(SPOKEN[50 * 480 :], pcm[75 * 480 :])[1] == pytest.approx(156, abs=24)


def test_reordered_and_doubled_packets_change_nothing() -> None:
    straight = sent()
    packets = straight.in_order()
    shuffled = PacketLog()
    order = packets[:4] + random.Random(1).sample(packets[4:30], 26) + packets[30:] + packets[40:50]
    for p in order:
        shuffled.add(p.arrival_s, p.sequence % 65_536, p.timestamp % (1 << 32), p.payload)
    np.testing.assert_array_equal(recording(shuffled).read(), recording(straight).read())


def test_empty_payloads_do_no_harm() -> None:
    log = sent()
    log.add(12.0, (65_500 + 100) % 65_536, (0xFFFFF000 + 100 * 960) % (1 << 32), b"")
    assert best_match(SPOKEN, recording(log).read())[0] > 0.95


def test_garbage_counts_as_lost() -> None:
    log = PacketLog()
    for p in sent().in_order():
        payload = b"\xff" if p.sequence == 65_536 + 65_550 else p.payload
        log.add(p.arrival_s, p.sequence % 65_536, p.timestamp % (1 << 32), payload)
    made = recording(log)
    assert best_match(SPOKEN, made.read())[0] > 0.9
    assert made.heard.lost_packets == 1


def test_when_a_sample_was_heard_is_its_packets_arrival() -> None:
    info, encoder = OPUS, encoder_for("opus")
    log = PacketLog()
    for number, block in enumerate(SPOKEN.reshape(-1, 480)):
        held_s = 0.07 if number == 50 else 0.0
        if number != 60:
            log.add(10 + 0.02 * number + held_s, number, number * 960, encoder.encode(block))
    made = recording(log)
    assert made.heard_at(0.5) == pytest.approx(10.5)
    assert made.heard_at(1.005) == pytest.approx(11.075)
    assert made.heard_at(1.21) is None
    assert made.heard_at(5.0) is None
    assert Recording([], info, 0.0, 10).heard_at(0.0) is None
