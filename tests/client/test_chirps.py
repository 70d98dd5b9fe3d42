from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.client.chirps import CODES, ProbeSignal, chirp, dropouts, hops, locate
from rtc_agent.media.codecs import decoder_for, encoder_for


def test_codes_use_each_tone_once_and_share_one_hop_at_most() -> None:
    codes = [hops(code) for code in range(CODES)]
    assert all(sorted(code) == list(range(CODES)) for code in codes)
    for i, one in enumerate(codes):
        for other in codes[i + 1 :]:
            for shift in range(-CODES + 1, CODES):
                places = range(max(0, -shift), min(CODES, CODES - shift))
                assert sum(one[p] == other[p + shift] for p in places) <= 1


@pytest.mark.parametrize("rate", [8_000, 24_000])
def test_different_chirps_hardly_correlate(rate: int) -> None:
    for i in range(CODES):
        for j in range(i):
            one, other = chirp(i, rate), chirp(j, rate)
            product = np.correlate(np.pad(one, len(other)), other, "valid")
            assert np.abs(product).max() < 0.25 * np.linalg.norm(one) * np.linalg.norm(other)


@given(st.integers(0, 60_000), st.integers(1, 5_000))
@settings(deadline=None, max_examples=30)
def test_any_stretch_is_part_of_the_same_signal(first: int, count: int) -> None:
    signal = ProbeSignal(24_000)
    whole = signal.samples(0, 66_000)
    np.testing.assert_allclose(
        signal.samples(first, count), whole[first : first + count], atol=1e-5
    )


@pytest.mark.parametrize("delay_s", [0.0, 0.1337, 0.5, 2.0, 3.6])
def test_chirps_are_found_at_their_delay(delay_s: float) -> None:
    signal = ProbeSignal(24_000)
    sent = signal.samples(0, 24_000 * 6)
    chirps = signal.count(6 - delay_s)
    heard = np.concatenate([np.zeros(round(delay_s * 24_000), np.float32), sent])[: len(sent)]
    noise = np.random.default_rng(1).standard_normal(len(heard)).astype(np.float32)
    found = locate(heard + 0.02 * noise, signal, chirps)
    for index, place in enumerate(found):
        assert place is not None
        assert place - signal.start_s(index) == pytest.approx(delay_s, abs=2e-4)


def test_a_delay_of_several_periods_is_not_taken_for_a_short_one() -> None:
    signal = ProbeSignal(24_000, period_s=0.413)
    sent = signal.samples(0, 24_000 * 8)
    heard = np.concatenate([np.zeros(24_000 * 2, np.float32), sent])
    found = locate(heard, signal, signal.count(8))
    delays = [place - signal.start_s(i) for i, place in enumerate(found) if place is not None]
    assert len(delays) == signal.count(8)
    assert np.allclose(delays, 2.0, atol=1e-3)


def test_missing_chirps_are_not_found_anywhere_else() -> None:
    signal = ProbeSignal(24_000)
    sent = signal.samples(0, 24_000 * 6).copy()
    start = round(signal.start_s(3) * 24_000)
    sent[start : start + 2_400] = signal.samples(0, 2_400)
    found = locate(sent, signal, signal.count(6))
    assert found[3] is None
    assert all(place is not None for index, place in enumerate(found) if index != 3)
    assert locate(np.zeros(48_000, np.float32), signal, 3) == [None] * 3
    assert locate(np.zeros(0, np.float32), signal, 2) == [None] * 2


@pytest.mark.parametrize(("codec", "most_ms"), [("opus", 8), ("PCMU", 8)])
def test_chirps_survive_the_codecs(codec: str, most_ms: float) -> None:
    signal = ProbeSignal(24_000)
    sent = signal.samples(0, 24_000 * 5)
    encoder, decoder = encoder_for(codec), decoder_for(codec)
    heard = np.concatenate([decoder.decode(encoder.encode(b)) for b in sent.reshape(-1, 480)])
    found = locate(heard, signal, signal.count(4.9))
    delays = [1e3 * (p - signal.start_s(i)) for i, p in enumerate(found) if p is not None]
    assert len(delays) == signal.count(4.9)
    assert 0 <= min(delays) and max(delays) <= most_ms and np.ptp(delays) < 0.5


def test_dropouts_are_the_holes_in_the_pilot() -> None:
    signal = ProbeSignal(24_000)
    heard = signal.samples(0, 24_000 * 4).copy()
    assert not dropouts(heard, 24_000)
    heard[48_000 : 48_000 + 480] = 0  # 20 ms
    heard[72_000 : 72_000 + 2_400] = 0  # 100 ms
    holes = dropouts(heard, 24_000)
    assert [h.start_s for h in holes] == pytest.approx([2.0, 3.0], abs=0.006)
    assert [h.length_s for h in holes] == pytest.approx([0.02, 0.1], abs=0.008)


def test_silence_before_and_after_is_no_dropout() -> None:
    signal = ProbeSignal(24_000)
    silence = np.zeros(24_000, np.float32)
    heard = np.concatenate([silence, signal.samples(0, 24_000), silence])
    assert not dropouts(heard, 24_000)
    assert not dropouts(silence, 24_000)
    assert not dropouts(silence[:10], 24_000)
