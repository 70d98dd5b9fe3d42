"""Silence made shorter or longer; everything else untouched."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.engine.stepper import Pcm
from rtc_agent.media.silence_edit import lengthen, shorten, silent_run
from tests.media.simulation import noise


def around(silent: int) -> Pcm:
    """40 ms of sound, so many samples of near silence, 40 ms of sound."""
    return np.concatenate([noise(0.04, 1), noise(1, 2, 0.0004)[:silent], noise(0.04, 3)])


@settings(deadline=None)
@given(silent=st.integers(0, 1_900), most=st.integers(0, 900))
def test_only_silence_is_edited(silent: int, most: int) -> None:
    pcm = around(silent)
    run = silent_run(pcm)[1]
    assert silent - 240 <= run <= silent or run == 0
    shorter, longer = shorten(pcm, most), lengthen(pcm, most)
    assert len(pcm) - len(shorter) == max(0, min(most, run - 120))
    assert len(longer) - len(pcm) == max(0, min(most, run - 120))
    for edited in (shorter, longer):
        np.testing.assert_array_equal(edited[:960], pcm[:960])
        np.testing.assert_array_equal(edited[-960:], pcm[-960:])
        assert np.abs(edited[1_000 : len(edited) - 1_000]).max(initial=0) < 0.3


def test_speech_is_left_alone() -> None:
    pcm = noise(0.08)
    assert shorten(pcm, 480) is pcm
    assert lengthen(pcm, 480) is pcm


def test_pure_silence_can_go_almost_whole() -> None:
    assert len(shorten(np.zeros(1_920, np.float32), 5_000)) == 120
