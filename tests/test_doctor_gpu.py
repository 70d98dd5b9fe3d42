"""What the doctor says of GPUs, without one."""

from __future__ import annotations

import re

from rtc_agent.doctor import Level, _banks, _room


def test_room_is_named_in_every_form() -> None:
    finding = _room(24 << 30)
    assert finding.level is Level.OK
    numbers = [int(word) for word in finding.detail.replace(",", "").split() if word.isdigit()]
    wide, narrow_keys, eight_bit, four_bit = numbers
    assert 0 < wide < eight_bit < four_bit
    assert wide < narrow_keys


def test_a_small_card_holds_narrow_weights_alone() -> None:
    assert "0 in bfloat16" in _room(10 << 30).detail
    assert _room(2 << 30).level is Level.NOTE


def test_banks_are_told_of_where_many_calls_fit() -> None:
    (finding,) = _banks(80 << 30)
    two, four = (int(count) for count in re.findall(r"--sessions (\d+)", finding.detail))
    whole = int(re.findall(r"(\d+) in bfloat16", _room(80 << 30).detail)[0])
    assert four <= two <= whole < four + 8
    assert (two % 2, four % 4) == (0, 0)
    assert f"--sessions {four // 4} " in finding.advice
    assert list(_banks(24 << 30)) == []
