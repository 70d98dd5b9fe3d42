import numpy as np

from rtc_agent.training.data.evaluation_sets import expected, telephone
from rtc_agent.training.data.texts.intents import SORRY, demo_domain
from tests.training.data.toys import hum, toy_book


def test_what_is_expected_is_in_the_book() -> None:
    book = toy_book()
    for intent in (None, *demo_domain().intents):
        assert expected(intent)
        for text in expected(intent):
            assert book.index(text) >= 0
    assert expected(None) == {SORRY}
    assert expected("ask-name", "Ruby") == {"My name is Ruby."}
    assert expected("say-that-again") == {"I do not remember what I said. Please ask me again."}
    assert len(expected("dice")) == 6


def test_the_telephone_takes_the_high_notes() -> None:
    low = hum(4)
    assert np.corrcoef(telephone(low)[500:-500], low[500:-500])[0, 1] > 0.99
    high = (0.3 * np.sin(np.arange(24_000) * 2 * np.pi * 6_000 / 24_000)).astype(np.float32)
    assert np.abs(telephone(high)[500:-500]).max() < 0.03
