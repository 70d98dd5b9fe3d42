"""Standing in for what a telephone codec lost."""

from __future__ import annotations

import numpy as np
import pytest

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media.concealment import WaveformConcealer


def tone(hz: float, samples: int, start: int = 0) -> Pcm:
    t = (start + np.arange(samples)) / SAMPLE_RATE
    return (0.3 * np.sin(2 * np.pi * hz * t)).astype(np.float32)


@pytest.mark.parametrize("hz", [90.0, 150.0, 220.0, 380.0])
def test_a_pitch_goes_on(hz: float) -> None:
    concealer = WaveformConcealer()
    concealer.received(tone(hz, 4_800))
    made = concealer.conceal(240)
    expected = tone(hz, 240, 4_800)
    assert float(np.dot(made, expected) / np.dot(expected, expected)) > 0.85


def test_it_fades_and_ends() -> None:
    concealer = WaveformConcealer()
    concealer.received(tone(200, 4_800))
    made = concealer.conceal(2_400)
    assert np.abs(made[:240]).max() > 0.25
    assert np.abs(made[1_500:]).max() == 0


def test_real_audio_is_joined_softly() -> None:
    concealer = WaveformConcealer()
    concealer.received(tone(200, 4_800))
    made = concealer.conceal(480)
    back = concealer.received(tone(200, 480, 5_340))
    joined = np.concatenate([made[-100:], back])
    assert np.abs(np.diff(joined)).max() < 0.04
    np.testing.assert_array_equal(back[120:], tone(200, 480, 5_340)[120:])


def test_before_anything_was_heard_it_is_silent() -> None:
    assert not WaveformConcealer().conceal(480).any()
