"""Token buckets on a virtual clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from signaling.rates import MAX_BUCKETS, Rate, whole_seconds
from tests.virtual_clock import VirtualClock


def test_a_burst_passes_and_then_the_rate_counts() -> None:
    clock = VirtualClock()
    rate = Rate(clock, per_minute=60, burst=3)
    assert [rate.take("a") for _ in range(3)] == [0, 0, 0]
    assert rate.take("a") == 1.0
    clock.advance(1.0)
    assert rate.take("a") == 0
    assert rate.take("a") > 0
    assert rate.take("b") == 0, "another is not concerned"


def test_zero_does_not_limit() -> None:
    rate = Rate(VirtualClock(), per_minute=0)
    assert not any(rate.take("a") for _ in range(1_000))
    assert len(rate) == 0


@given(st.lists(st.floats(0, 20), max_size=60))
def test_no_more_pass_than_the_burst_and_what_time_brings(pauses: list[float]) -> None:
    clock = VirtualClock()
    rate = Rate(clock, per_minute=30, burst=2)
    passed = 0
    for pause_s in pauses:
        clock.advance(pause_s)
        passed += rate.take("a") == 0
    assert passed <= 2 + sum(pauses) * 0.5 + 1e-6


def test_what_was_taken_elsewhere_counts_and_what_is_owed_is_bounded() -> None:
    clock = VirtualClock()
    rate = Rate(clock, per_minute=60, burst=3)
    rate.spend("a")
    assert [rate.take("a") == 0 for _ in range(3)] == [True, True, False]
    for _ in range(100):
        rate.spend("a")
    clock.advance(3.0)
    assert rate.take("a") == 0
    Rate(clock, per_minute=0).spend("a")


def test_strangers_do_not_fill_the_memory() -> None:
    rate = Rate(VirtualClock(), per_minute=1)
    for index in range(MAX_BUCKETS + 100):
        rate.take(str(index))
    assert len(rate) == MAX_BUCKETS


def test_retry_after_is_at_least_a_second() -> None:
    assert whole_seconds(0.01) == 1
    assert whole_seconds(4.2) == 5
