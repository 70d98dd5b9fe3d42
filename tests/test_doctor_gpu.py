"""What the doctor says of GPUs, without one."""

from __future__ import annotations

import pytest

from rtc_agent.doctor import Level, _room, _runs_on

TORCH = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


@pytest.mark.parametrize(
    ("capability", "runs"),
    [
        ((8, 9), True),
        ((9, 0), True),
        ((12, 1), True),
        ((8, 7), True),
        ((7, 0), False),
        ((11, 0), False),
    ],
)
def test_code_runs_on_later_chips_of_its_generation(
    capability: tuple[int, int], runs: bool
) -> None:
    assert _runs_on(TORCH, *capability) is runs


def test_kept_intermediate_code_runs_on_anything_later() -> None:
    assert _runs_on(["sm_80", "compute_90"], 12, 0)
    assert not _runs_on(["sm_80", "compute_120"], 9, 0)
    assert not _runs_on(["sm_90a"], 9, 1)
    assert _runs_on(["sm_90a"], 9, 0)


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
