"""What the reader is asked to do, for margins of every kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.engine.stepper import FRAME_S
from rtc_agent.media.delay_control import (
    EDGE_S,
    GENTLE_RATE,
    HASTY_RATE,
    MAX_RATE,
    SAFETY_S,
    DelayController,
)

PACKET_S = 0.020


def fed(margins: list[float]) -> DelayController:
    """A controller at a lag of 1 s, on a network that left it such margins."""
    control = DelayController()
    for margin in margins:
        control.observe(1.0 - margin)
        control.tick(1.0)
    return control


def error(control: DelayController, unread_s: float = EDGE_S, recoverable: bool = False) -> float:
    return control.error_s(unread_s, PACKET_S, recoverable=recoverable)


@pytest.mark.parametrize("margin", [0.002, 0.010, 0.020, 0.024])
def test_within_a_packet_nothing_is_asked(margin: float) -> None:
    assert error(fed([margin] * 60)) == 0.0


def test_room_for_whole_packets_is_used_in_whole_packets() -> None:
    assert error(fed([0.030] * 60)) == pytest.approx(PACKET_S)
    assert error(fed([0.070] * 60)) == pytest.approx(3 * PACKET_S)


def test_too_little_falls_back_to_the_packet_before() -> None:
    assert error(fed([0.0005] * 60)) == pytest.approx(-PACKET_S, abs=2 * EDGE_S)
    assert error(fed([-0.025] * 60)) == pytest.approx(-2 * PACKET_S, abs=2 * EDGE_S)


def test_a_frame_that_ends_inside_a_packet_takes_the_rest_of_it() -> None:
    assert error(fed([0.012] * 60), unread_s=0.006) == pytest.approx(0.006 - EDGE_S)


def test_a_move_is_carried_through_before_another_is_considered() -> None:
    control = fed([0.030] * 60)
    asked = error(control)
    while (left := error(control)) > 1e-9:
        rate = control.rate(left)
        assert 0 < rate <= MAX_RATE
        control.corrected(-rate * FRAME_S)
    assert control.lag_s == pytest.approx(1.0 - asked)
    assert error(control) == 0.0


def test_a_drifting_clock_is_met_with_a_steady_rate() -> None:
    slow = fed([0.012 - 0.00003 * i for i in range(150)])
    assert error(slow) < 0
    assert slow.rate(error(slow)) in (-MAX_RATE, -GENTLE_RATE)
    fast = fed([0.030 + 0.0001 * i for i in range(150)])
    assert 0 < fast.rate(error(fast)) <= MAX_RATE


def test_small_errors_of_a_drifting_clock_are_left_alone() -> None:
    control = fed([0.0225 + 0.00001 * i for i in range(150)])
    assert abs(error(control)) < 0.0015
    assert control.rate(error(control)) == 0.0


def test_after_an_outage_it_hurries() -> None:
    control = fed([0.150] * 60)
    assert control.rate(error(control)) == HASTY_RATE


def test_jitter_keeps_more_than_a_quiet_path() -> None:
    control = fed([0.010 + 0.030 * (i % 2) for i in range(60)])
    error(control)
    assert control.safety_s == pytest.approx(SAFETY_S + 0.003)


def test_losses_are_worth_a_packets_wait_where_they_can_be_recovered() -> None:
    control = fed([0.010] * 60)
    for i in range(400):
        control.observe_packet(lost=i % 20 == 0)
    assert error(control) == 0.0
    assert error(control, recoverable=True) == pytest.approx(-PACKET_S, abs=2 * EDGE_S)
    assert control.loss == pytest.approx(0.05, abs=0.02)


def test_an_outage_is_no_measure_of_jitter() -> None:
    control = fed([0.010] * 60 + [-0.5] * 20)
    assert error(control) == 0.0


def test_an_involuntary_delay_replaces_the_plan() -> None:
    control = fed([0.030] * 60)
    assert error(control) > 0
    control.moved(-0.020)
    assert error(control) == 0.0


def test_a_late_tick_is_no_lag_and_late_ticks_are() -> None:
    control = fed([0.010] * 60)
    for _ in range(3):
        control.tick(1.1)
    assert control.lag_s == pytest.approx(1.0)
    assert error(control) == 0.0
    for _ in range(12):
        control.tick(1.1)
    assert error(control) == pytest.approx(5 * PACKET_S)


@given(
    st.lists(st.floats(-0.2, 0.3), min_size=1, max_size=200),
    st.floats(0, 0.02),
    st.sampled_from([0.01, 0.02, 0.06]),
    st.booleans(),
)
def test_whatever_was_seen_the_rate_is_bounded(
    margins: list[float], unread_s: float, packet_s: float, recoverable: bool
) -> None:
    control = fed(margins)
    asked = control.error_s(unread_s, packet_s, recoverable=recoverable)
    assert abs(control.rate(asked)) <= HASTY_RATE
    if abs(asked) <= 0.04:
        assert abs(control.rate(asked)) <= MAX_RATE
