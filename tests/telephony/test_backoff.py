"""Waits grow, have a limit, and start over."""

from __future__ import annotations

import random

from rtc_agent.telephony.backoff import FIRST_S, Backoff


def test_waits_double_up_to_the_limit_and_start_over() -> None:
    backoff = Backoff(4.0, random.Random(1))
    waits = [backoff.next_s() for _ in range(8)]
    for wait, full in zip(waits, [0.5, 1, 2, 4, 4, 4, 4, 4], strict=True):
        assert full / 2 <= wait <= full
    backoff.reset()
    assert backoff.next_s() <= FIRST_S
