import numpy as np
import pytest

from rtc_agent.training.data.batch import SAMPLE_RATE
from rtc_agent.training.data.sounds import KINDS, SoundBank, levelled


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_sound_is_heard_and_ends(kind: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(4):
        sound = levelled(KINDS[kind](rng))
        assert np.isfinite(sound).all()
        assert np.abs(sound).max() == pytest.approx(1)
        assert 0.01 < len(sound) / SAMPLE_RATE < 9


def test_a_bank_has_every_kind_and_is_the_same_for_a_seed() -> None:
    first, second = SoundBank(seed=1, count=1), SoundBank(seed=1, count=1)
    rng = np.random.default_rng(0)
    drawn = {len(first.draw(rng)) for _ in range(400)}
    assert len(drawn) == len(KINDS)
    a, b = (bank.draw(np.random.default_rng(5)) for bank in (first, second))
    assert np.array_equal(a, b)
