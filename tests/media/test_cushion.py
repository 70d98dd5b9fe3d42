"""What the cushion is asked to be, for waits of every kind."""

from __future__ import annotations

import pytest

from rtc_agent.media.cushion import MARGIN_S, CushionController


def fed(waits: list[float]) -> CushionController:
    control = CushionController()
    for wait in waits:
        control.observe(wait)
    return control


def test_nothing_is_asked_before_enough_was_seen() -> None:
    assert fed([0.02] * 17).error_s() == 0.0
    assert fed([0.02] * 18).error_s() > 0


def test_even_waits_may_shrink_to_the_margin() -> None:
    assert fed([0.020] * 50).error_s() == pytest.approx(0.020 - MARGIN_S)
    assert fed([MARGIN_S + 0.001] * 50).error_s() == 0.0


def test_uneven_waits_keep_more() -> None:
    uneven = [0.020 + 0.010 * (i % 2) for i in range(50)]
    assert fed(uneven).error_s() < 0.020 - MARGIN_S


def test_waits_that_are_too_short_ask_for_more() -> None:
    assert fed([-0.010] * 50).error_s() == pytest.approx(-0.010 - MARGIN_S)


def test_one_late_tick_in_a_hundred_is_no_reason() -> None:
    assert fed([0.004] * 99 + [-0.050]).error_s() == 0.0


@pytest.mark.parametrize("hitch", [0, 10, 20])
def test_a_hitch_in_the_first_seconds_counts(hitch: int) -> None:
    """One in two seconds may be what is usual here."""
    waits = [0.020] * 25
    waits[hitch] = 0.008
    assert fed(waits).error_s() <= 0.008 - MARGIN_S
    assert fed(waits + [0.020] * 24).error_s() <= 0.008 - MARGIN_S
    assert fed(waits + [0.020] * 26).error_s() > 0.010


def test_delay_added_since_counts_for_what_was_seen_before() -> None:
    control = fed([0.020] * 50)
    control.added(-0.016)
    assert control.error_s() == 0.0
    control.added(0.030)
    assert control.error_s() == pytest.approx(0.030)


def test_a_backlog_shows_within_a_second() -> None:
    control = fed([0.005] * 100)
    for _ in range(12):
        assert control.error_s() == 0.0
        control.observe(0.166)
    assert control.error_s() == pytest.approx(0.166 - 0.040 - MARGIN_S, abs=0.002)
