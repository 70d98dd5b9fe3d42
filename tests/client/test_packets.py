from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.client.packets import Arrivals, PacketLog, SenderLine, Unwrapper


@given(
    st.integers(0, 65_535),
    st.lists(st.integers(-3, 5), max_size=200),
)
def test_counters_keep_counting_over_a_wrap(first: int, steps: list[int]) -> None:
    unwrapper = Unwrapper(16)
    start = unwrapper.unwrap(first)
    value, newest = start, start
    for step in steps:
        # A little back from the newest, or on: both happen on a network.
        value = max(newest + step, 0)
        newest = max(newest, value)
        assert unwrapper.unwrap(value % 65_536) == value


def log_of(*packets: tuple[float, int, int]) -> PacketLog:
    log = PacketLog()
    for arrival_s, sequence, timestamp in packets:
        log.add(arrival_s, sequence % 65_536, timestamp % (1 << 32), b"x")
    return log


def test_packets_come_out_in_the_senders_order_over_both_wraps() -> None:
    first = (1 << 32) - 960
    log = log_of((0.00, 65_535, first), (0.04, 1, first + 1920), (0.05, 0, first + 960))
    packets = log.in_order()
    assert [p.sequence - packets[0].sequence for p in packets] == [0, 1, 2]
    assert [p.timestamp - packets[0].timestamp for p in packets] == [0, 960, 1920]
    assert [p.arrival_s for p in packets] == [0.00, 0.05, 0.04]


def test_the_first_packet_may_have_been_overtaken_itself() -> None:
    log = log_of((0.0, 1, 960), (0.01, 0, 0))
    packets = log.in_order()
    assert [p.timestamp - packets[0].timestamp for p in packets] == [0, 960]


def test_copies_count_once() -> None:
    log = log_of((0.0, 7, 0), (0.01, 8, 960), (0.02, 7, 0))
    assert len(log) == 2 and log.duplicates == 1
    assert log.in_order()[0].arrival_s == 0.0


def test_the_senders_line_is_that_of_the_packets_that_were_not_held_up() -> None:
    packets = log_of(
        *((100 + 0.02 * n + (0.03 if n % 3 else 0.0), n, 960 * n) for n in range(50))
    ).in_order()
    line = SenderLine.through(packets, 48_000, 100.5)
    assert line is not None
    offset = packets[0].timestamp
    assert line.timestamp_at(100.5) - offset == pytest.approx(24_000, abs=1)
    assert SenderLine.through(packets, 48_000, 200) is None


def test_a_drifting_sender_is_measured_where_it_counts() -> None:
    # 1 % slow: after 100 s the sender is a second behind.
    packets = log_of(*((0.0202 * n, n, 960 * n) for n in range(5_000))).in_order()
    line = SenderLine.through(packets, 48_000, 90.9)
    assert line is not None
    behind = 48_000 * 90.9 / 1.01
    # Within what the clocks part by in the 2 s on either side.
    assert line.timestamp_at(90.9) - packets[0].timestamp == pytest.approx(behind, abs=48 * 25)


def test_arrivals_find_the_packet_that_holds_a_moment() -> None:
    packets = log_of((0.0, 0, 0), (0.02, 1, 960), (0.06, 3, 2880)).in_order()
    base = packets[0].timestamp
    arrivals = Arrivals(packets)
    assert arrivals.holding(base + 959, 960) == packets[0]
    assert arrivals.holding(base + 960, 960) == packets[1]
    assert arrivals.holding(base + 2_000, 960) is None
    assert arrivals.holding(base - 1, 960) is None
