"""Reading a little faster or slower: exact, seamless, inaudible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media.variable_rate import VariableRateReader
from tests.media.simulation import noise


def read(reader: VariableRateReader, source: Pcm, at: int, samples: int, rate: float):  # type: ignore[no-untyped-def]
    """The next samples and how far the source has been fed."""
    missing = reader.missing(samples, rate)
    reader.feed(source[at : at + missing])
    return reader.take(samples, rate), at + missing


def test_at_rate_zero_the_stream_passes_bit_for_bit() -> None:
    source = noise(1)
    reader, at, out = VariableRateReader(), 0, []
    for _ in range(10):
        pcm, at = read(reader, source, at, 1_920, 0.0)
        out.append(pcm)
    np.testing.assert_array_equal(np.concatenate(out), source[:19_200])


@pytest.mark.parametrize("rate", [0.001, -0.001, 0.0003, 0.004])
def test_a_tone_stays_a_tone_at_its_new_pitch(rate: float) -> None:
    hz = 1_000.0
    t = np.arange(4 * SAMPLE_RATE) / SAMPLE_RATE
    source = (0.5 * np.sin(2 * np.pi * hz * t)).astype(np.float32)
    reader, at, out = VariableRateReader(), 0, []
    for _ in range(40):
        pcm, at = read(reader, source, at, 1_920, rate)
        out.append(pcm)
    heard = np.concatenate(out)[480:]
    n = np.arange(len(heard)) / SAMPLE_RATE
    basis = np.stack(
        [np.sin(2 * np.pi * hz * (1 + rate) * n), np.cos(2 * np.pi * hz * (1 + rate) * n)], 1
    )
    fit, *_ = np.linalg.lstsq(basis, heard, rcond=None)
    error = heard - basis @ fit
    assert 10 * np.log10(np.mean(heard**2) / np.mean(error**2)) > 60


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 3_000), st.sampled_from([0.0, 0.001, -0.001, 0.0006])),
        min_size=1,
        max_size=15,
    )
)
def test_pieces_join_without_a_seam(pieces: list[tuple[int, float]]) -> None:
    """However it is read, the output follows one smooth line through the source."""
    t = np.arange(3 * SAMPLE_RATE) / SAMPLE_RATE
    source = np.sin(2 * np.pi * 200 * t).astype(np.float32)
    reader, at, place = VariableRateReader(), 0, 0.0
    for samples, rate in pieces:
        pcm, at = read(reader, source, at, samples, rate)
        assert len(pcm) == samples
        places = place + np.arange(samples) * (1 + rate)
        if place > 64:
            np.testing.assert_allclose(
                pcm, np.sin(2 * np.pi * 200 * places / SAMPLE_RATE), atol=2e-3
            )
        place += samples * (1 + rate)
        assert reader.surplus() >= 0
        # What was fed is what was read and the look-ahead, to a sample.
        assert abs(at - (place + 16)) <= 2
