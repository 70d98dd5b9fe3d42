"""Presses that are told over two ways count once."""

from __future__ import annotations

from rtc_agent.telephony.keys import SAME_PRESS_S, KeyMerger


def test_a_press_told_twice_counts_once_whichever_way_is_first() -> None:
    merger = KeyMerger()
    assert merger.push("1", "rtp", 0.0)
    assert not merger.push("1", "info", 0.1)
    assert merger.push("2", "info", 0.2)
    assert not merger.push("2", "rtp", 0.3)
    assert not merger.push("2", "gateway", 0.3)


def test_the_same_key_pressed_twice_over_two_ways_is_two_presses() -> None:
    merger = KeyMerger()
    heard = [
        merger.push("1", "rtp", 0.0),
        merger.push("1", "rtp", 0.3),
        merger.push("1", "info", 0.4),
        merger.push("1", "info", 0.5),
    ]
    assert heard == [True, True, False, False]


def test_what_comes_much_later_is_another_press() -> None:
    merger = KeyMerger()
    assert merger.push("1", "rtp", 0.0)
    assert merger.push("1", "info", SAME_PRESS_S + 0.1)
