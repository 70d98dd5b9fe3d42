"""8, 16 and 24 kHz: exact counts, flat, no images, the same in pieces as in one."""

from __future__ import annotations

import numpy as np
import pytest

from rtc_agent.media.resampler import Resampler

PAIRS = [(24_000, 8_000), (8_000, 24_000), (24_000, 16_000), (16_000, 24_000), (48_000, 24_000)]


def tone(hz: float, rate: int, seconds: float = 1.2) -> np.ndarray:
    return np.sin(2 * np.pi * hz * np.arange(round(rate * seconds)) / rate).astype(np.float32)


def convert(pcm: np.ndarray, from_rate: int, to_rate: int, block_s: float = 0.02) -> np.ndarray:
    resampler = Resampler(from_rate, to_rate)
    block = round(from_rate * block_s)
    pieces = [
        resampler.process(pcm[i : i + block]) for i in range(0, len(pcm) // block * block, block)
    ]
    assert all(len(p) == block * to_rate // from_rate for p in pieces)
    return np.concatenate(pieces)


def spectrum_db(pcm: np.ndarray, rate: int) -> tuple[np.ndarray, np.ndarray]:
    piece = pcm[rate // 10 : rate // 10 + rate]
    window = np.blackman(len(piece))
    bins = np.abs(np.fft.rfft(piece * window)) / window.sum() * 2
    return np.fft.rfftfreq(len(piece), 1 / rate), 20 * np.log10(bins + 1e-9)


@pytest.mark.parametrize("pair", PAIRS)
def test_pieces_equal_the_whole(pair: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    pcm = rng.standard_normal(pair[0]).astype(np.float32)
    whole = Resampler(*pair).process(pcm)
    np.testing.assert_allclose(convert(pcm, *pair), whole, atol=1e-6)
    np.testing.assert_allclose(convert(pcm, *pair, block_s=0.01), whole, atol=1e-6)


@pytest.mark.parametrize("pair", PAIRS)
def test_passband_is_flat_and_the_rest_is_clean(pair: tuple[int, int]) -> None:
    band = min(pair) / 2
    for share in (0.05, 0.3, 0.6, 0.825):
        hz = round(band * share)
        freqs, level = spectrum_db(convert(tone(hz, pair[0]), *pair), pair[1])
        near = np.abs(freqs - hz) < 15
        assert abs(level[near].max()) < 0.5
        assert level[~near].max() < -50


@pytest.mark.parametrize("hz", [4_100, 4_500, 5_000, 7_000, 11_000])
def test_no_alias_reaches_the_telephone(hz: int) -> None:
    _, level = spectrum_db(convert(tone(hz, 24_000), 24_000, 8_000), 8_000)
    assert level.max() < -40


def test_ten_minutes_are_ten_minutes() -> None:
    resampler = Resampler(24_000, 8_000)
    block = np.zeros(1_920, np.float32)
    assert sum(len(resampler.process(block)) for _ in range(7_500)) == 600 * 8_000


def test_part_of_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="blocks of 3"):
        Resampler(24_000, 8_000).process(np.zeros(100, np.float32))
