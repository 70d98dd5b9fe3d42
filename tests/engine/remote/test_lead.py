from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.engine.remote.lead import LEAST_S, MOST_S, SPARE_S, STEP_S, WINDOW_TICKS, Lead

LATE_S, IN_TIME_S = -0.001, 0.003


def led(*spare_s: float) -> Lead:
    lead = Lead()
    for each in spare_s:
        lead.observe(each)
    return lead


def test_a_hitch_now_and_then_lengthens_nothing() -> None:
    assert led(*([LATE_S] + [IN_TIME_S] * WINDOW_TICKS) * 4).seconds == LEAST_S


def test_two_within_the_window_do() -> None:
    assert led(LATE_S, *[IN_TIME_S] * 100, LATE_S).seconds == LEAST_S + STEP_S


def test_one_that_is_nearly_late_counts_as_much() -> None:
    assert led(SPARE_S / 2, SPARE_S / 2).seconds > LEAST_S
    assert led(SPARE_S, SPARE_S).seconds == LEAST_S


def test_it_falls_again_step_by_step_once_there_is_calm() -> None:
    lead = led(*[LATE_S] * 4)
    assert lead.seconds == pytest.approx(LEAST_S + 2 * STEP_S)
    for calm in range(1, 5):
        for _ in range(WINDOW_TICKS):
            lead.observe(IN_TIME_S)
        assert lead.seconds == pytest.approx(LEAST_S + 2 * STEP_S - calm * STEP_S / 2)
    assert lead.seconds == pytest.approx(LEAST_S)


@given(st.lists(st.floats(-0.1, 0.1), max_size=300))
def test_it_stays_within_its_bounds(spare_s: list[float]) -> None:
    assert LEAST_S <= led(*spare_s).seconds <= MOST_S


def test_a_machine_that_needs_some_time_gets_that_and_no_more() -> None:
    """Where handing over takes 7 ms now and then, the lead comes to that, and is kept there."""
    lead = Lead()
    for tick in range(2_000):
        lead.observe(lead.seconds - (0.0068 if tick % 20 == 0 else 0.001))
    assert lead.seconds == pytest.approx(0.008)
