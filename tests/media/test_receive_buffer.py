"""Packets on a timeline: order, wraps, gaps, restarts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.media.receive_buffer import (
    MAX_SPAN,
    Arrival,
    Lost,
    Nothing,
    Played,
    Quiet,
    ReceiveBuffer,
)

STEP = 960
LENGTH = 480


def arrival(
    index: int,
    *,
    first_sequence: int = 10,
    first_timestamp: int = 0,
    late_s: float = 0.0,
    ssrc: int = 1,
    timestamp_index: int | None = None,
) -> Arrival:
    place = index if timestamp_index is None else timestamp_index
    return Arrival(
        (first_sequence + index) % 65_536,
        (first_timestamp + place * STEP) % 2**32,
        ssrc,
        96,
        index.to_bytes(4, "big"),
        LENGTH,
        48_000,
        place * 0.02 + late_s,
    )


def drain(buffer: ReceiveBuffer) -> list[object]:
    found = []
    while not isinstance(stretch := buffer.read(100_000), Nothing):
        found.append(stretch)
    return found


def indices(stretches: list[object]) -> list[int]:
    return [int.from_bytes(s.packet.payload, "big") for s in stretches if isinstance(s, Played)]


@settings(max_examples=200, deadline=None)
@given(
    order=st.permutations(range(12)),
    first_sequence=st.sampled_from([0, 65_530, 65_535, 32_760]),
    first_timestamp=st.sampled_from([0, 2**32 - 5 * STEP, 2**31 - 3 * STEP]),
    repeats=st.lists(st.integers(0, 11), max_size=4),
)
def test_any_order_any_wrap_any_duplicate_comes_out_in_order(
    order: list[int], first_sequence: int, first_timestamp: int, repeats: list[int]
) -> None:
    buffer = ReceiveBuffer()
    # The reader stands before everything, as it does at the first tick.
    numbers = {"first_sequence": first_sequence, "first_timestamp": first_timestamp}
    for index in [*order, *repeats]:
        buffer.push(arrival(index, late_s=0.3 - 0.02 * index, **numbers))
    buffer.seek(-12 * LENGTH)
    stretches = drain(buffer)
    assert indices(stretches) == list(range(12))
    assert buffer.counts.duplicates == len(repeats)
    assert buffer.counts.lost == 0


@settings(max_examples=200, deadline=None)
@given(kept=st.sets(st.integers(1, 38)), limit=st.integers(1, 2_000))
def test_time_never_shrinks_or_grows(kept: set[int], limit: int) -> None:
    """Whatever is missing, what is read covers the span exactly."""
    present = sorted({0, 39} | kept)
    buffer = ReceiveBuffer()
    for index in present:
        buffer.push(arrival(index))
    buffer.seek(0)
    covered = 0
    while True:
        stretch = buffer.read(limit)
        if isinstance(stretch, Nothing):
            break
        covered += stretch.packet.length if isinstance(stretch, Played) else stretch.samples
    assert covered == 40 * LENGTH
    assert buffer.counts.lost == 40 - len(present)


def test_a_lost_packet_names_the_one_behind_it() -> None:
    buffer = ReceiveBuffer()
    for index in (0, 1, 3):
        buffer.push(arrival(index))
    buffer.seek(0)
    assert indices([buffer.read(480), buffer.read(480)]) == [0, 1]
    lost = buffer.read(480)
    assert isinstance(lost, Lost)
    assert lost.samples == LENGTH
    assert lost.following is not None and lost.following.payload == b"\0\0\0\3"


def test_a_pause_of_the_sender_is_no_loss() -> None:
    """Discontinuous transmission: the clock runs on, the sequence numbers do not."""
    buffer = ReceiveBuffer()
    buffer.push(arrival(0))
    buffer.push(arrival(1, timestamp_index=20))
    buffer.seek(0)
    buffer.read(480)
    assert buffer.read(100_000) == Quiet(19 * LENGTH)
    assert buffer.counts.lost == 0


def test_numbers_taken_by_digits_are_no_loss() -> None:
    buffer = ReceiveBuffer()
    buffer.push(arrival(0))
    for sequence in (11, 12):
        buffer.note_foreign(sequence)
    buffer.push(arrival(3, timestamp_index=3))
    buffer.seek(0)
    buffer.read(480)
    assert buffer.read(100_000) == Quiet(2 * LENGTH)
    assert buffer.counts.lost == 0


def test_a_straggler_is_counted_and_not_played() -> None:
    buffer = ReceiveBuffer()
    for index in (0, 1, 3):
        buffer.push(arrival(index))
    buffer.seek(0)
    drain(buffer)
    assert buffer.push(arrival(2, late_s=0.05)) is None
    assert buffer.counts.late == 1
    assert buffer.counts.lost == 0
    assert isinstance(buffer.read(480), Nothing)


def test_a_burst_after_an_outage_is_late_not_a_restart() -> None:
    buffer = ReceiveBuffer()
    buffer.push(arrival(0))
    buffer.seek(0)
    drain(buffer)
    buffer.pass_over(30 * LENGTH)
    for index in range(1, 41):
        buffer.push(arrival(index, late_s=(40 - index) * 0.02))
    assert buffer.counts.late == 30
    assert buffer.counts.restarts == 0
    assert indices(drain(buffer)) == list(range(31, 41))


def test_a_sender_restarted_lower_is_heard_at_once() -> None:
    """Both numbers fall back by a second; the timeline goes on where it is."""
    buffer = ReceiveBuffer()
    buffer.seek(0)
    for index in range(60):
        buffer.push(arrival(index))
        drain(buffer)
    heard: list[int] = []
    for k in range(20):
        index = 60 + k
        packet = Arrival(
            20 + k, (10 + k) * STEP, 1, 96, index.to_bytes(4, "big"), 480, 48_000, index * 0.02
        )
        buffer.push(packet)
        heard += indices(drain(buffer))
    assert heard == list(range(60, 80))
    assert buffer.counts.restarts == 1
    # Nothing was put behind the sender's own time by more than the packets it took to be sure.
    assert buffer.newest_end - 80 * LENGTH <= 2 * LENGTH


def test_a_new_source_continues_the_timeline() -> None:
    buffer = ReceiveBuffer()
    buffer.seek(0)
    for index in range(10):
        buffer.push(arrival(index))
    for k in range(10):
        buffer.push(Arrival(7 + k, 123_456 + k * STEP, 2, 96, b"new", 480, 48_000, (10 + k) * 0.02))
    assert len(indices(drain(buffer))) == 20
    assert buffer.newest_end == 20 * LENGTH


def test_a_sequence_that_restarts_on_a_running_clock() -> None:
    buffer = ReceiveBuffer()
    buffer.seek(0)
    for index in range(60, 120):
        buffer.push(arrival(index))
    for index in range(120, 140):
        fallen = arrival(index, first_sequence=10 - 50)
        buffer.push(fallen)
    stretches = drain(buffer)
    assert indices(stretches) == list(range(60, 140))
    assert not any(isinstance(s, Lost) for s in stretches)


def test_timestamps_that_leap_far_ahead_start_anew() -> None:
    buffer = ReceiveBuffer()
    buffer.seek(0)
    for index in range(10):
        buffer.push(arrival(index))
    buffer.push(arrival(10, first_timestamp=10_000_000))
    assert buffer.counts.restarts == 1
    assert buffer.newest_end == 11 * LENGTH


def test_a_backlog_is_bounded() -> None:
    buffer = ReceiveBuffer()
    for index in range(500):
        buffer.push(arrival(index))
    buffer.seek(0)
    stretches = drain(buffer)
    played = indices(stretches)
    assert len(played) * LENGTH <= MAX_SPAN
    assert played[-1] == 499


def test_packets_of_one_frame_that_share_a_timestamp_follow_each_other() -> None:
    buffer = ReceiveBuffer()
    for index in range(8):
        buffer.push(arrival(index, timestamp_index=index - index % 4))
    buffer.seek(0)
    assert indices(drain(buffer)) == list(range(8))


def test_a_restart_is_no_loss() -> None:
    buffer = ReceiveBuffer()
    buffer.seek(0)
    for index in range(10):
        buffer.push(arrival(index))
    for k in range(10):
        buffer.push(Arrival(40_000 + k, 99 + k * STEP, 2, 96, b"new", 480, 48_000, (10 + k) * 0.02))
    stretches = drain(buffer)
    assert all(isinstance(s, Played) and s.lost_before == 0 for s in stretches)
    assert buffer.counts.lost == 0


def test_a_waiting_packet_is_found_by_where_it_begins() -> None:
    buffer = ReceiveBuffer()
    for number in (0, 2, 1, 4):
        buffer.push(arrival(number))
    buffer.seek(0)
    starts = [p.start if (p := buffer.waiting_at(480 * n)) else None for n in range(6)]
    assert starts == [0, 480, 960, None, 1920, None]
    assert buffer.waiting_at(479) is None
