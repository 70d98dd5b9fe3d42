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


def returned(signal: ProbeSignal, delay_s: float = 0.15) -> np.ndarray:
    sent = signal.samples(0, 24_000 * 6)
    return np.concatenate([np.zeros(round(delay_s * 24_000), np.float32), sent])


def holes(heard: np.ndarray, signal: ProbeSignal) -> list[tuple[float, float]]:
    places = locate(heard, signal, signal.count(6))
    return [(h.start_s, h.length_s) for h in dropouts(heard, signal, places)]


def test_the_signal_pauses_as_speech_does() -> None:
    signal = ProbeSignal(24_000)
    loud = np.abs(signal.samples(0, 24_000 * 20)).reshape(-1, 240).max(axis=1) > 0.01
    assert 0.2 < 1 - loud[50:].mean() < 0.4


def test_pauses_are_no_dropouts() -> None:
    signal = ProbeSignal(24_000)
    for delay_s in (0.0, 0.15, 1.3):
        assert holes(returned(signal, delay_s), signal) == []


@pytest.mark.parametrize("codec", ["opus", "PCMU"])
def test_codecs_make_no_dropouts(codec: str) -> None:
    signal = ProbeSignal(24_000)
    encoder, decoder = encoder_for(codec), decoder_for(codec)
    blocks = signal.samples(0, 24_000 * 6).reshape(-1, 480)
    heard = np.concatenate([decoder.decode(encoder.encode(block)) for block in blocks])
    assert holes(heard, signal) == []


def test_dropouts_are_the_holes_outside_the_pauses() -> None:
    signal = ProbeSignal(24_000)
    heard = returned(signal)
    # The pilot sounds on after chirps 1, 2 and 3 of each five.
    first = round((signal.start_s(2) + 0.15 + 0.2) * 24_000)
    second = round((signal.start_s(7) + 0.15 + 0.15) * 24_000)
    heard[first : first + 480] = 0  # 20 ms
    heard[second : second + 2_400] = 0  # 100 ms
    found = holes(heard, signal)
    assert [start for start, _ in found] == pytest.approx(
        [first / 24_000, second / 24_000], abs=0.006
    )
    assert [length for _, length in found] == pytest.approx([0.02, 0.1], abs=0.008)


def test_a_pause_that_moved_with_a_growing_delay_is_none_either() -> None:
    signal = ProbeSignal(24_000)
    sent = signal.samples(0, 24_000 * 6)
    middle = round((signal.start_s(5) - 0.1) * 24_000)
    later = np.concatenate([sent[:middle], np.zeros(4_800, np.float32), sent[middle:]])
    assert holes(later, signal) == []


def test_a_hole_that_swallows_chirps_is_one_dropout() -> None:
    signal = ProbeSignal(24_000)
    heard = returned(signal)
    begin, end = (round((signal.start_s(i) + 0.3) * 24_000) for i in (1, 3))
    heard[begin:end] = 0
    found = holes(heard, signal)
    assert len(found) == 1 and found[0][1] == pytest.approx((end - begin) / 24_000, abs=0.01)


def test_silence_before_and_after_is_no_dropout() -> None:
    signal = ProbeSignal(24_000)
    silence = np.zeros(24_000, np.float32)
    assert holes(np.concatenate([silence, signal.samples(0, 72_000), silence]), signal) == []
    assert holes(silence, signal) == []
    assert holes(silence[:10], signal) == []
