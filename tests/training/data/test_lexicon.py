import numpy as np

from rtc_agent.training.data.batch import Sentence
from rtc_agent.training.data.lexicon import EPAD, NAME_WEIGHT, schedule
from rtc_agent.training.data.texts.intent import GREETING, named
from tests.training.data.toys import WordTokenizer


class Letters:
    def encode(self, text: str, /) -> list[int]:
        return [ord(letter) for letter in text]


def _sentence(text: str, *onsets: float, reply: str = "x") -> Sentence:
    return Sentence(text, np.zeros(24_000, np.float32), onsets, reply)


def test_a_word_is_written_a_frame_before_it_sounds_after_an_epad() -> None:
    pieces = schedule(_sentence("a b", 0.0, 0.8), Letters())
    assert [(p.frame, p.token) for p in pieces] == [
        (-2, EPAD),
        (-1, ord("a")),
        (8, EPAD),
        (9, ord("b")),
    ]


def test_pieces_that_do_not_fit_push_the_next_word_on() -> None:
    pieces = schedule(_sentence("abcd e", 0.0, 0.16), Letters())
    assert [p.frame for p in pieces if p.token != EPAD] == [-1, 0, 1, 2, 3]
    assert sum(p.token == EPAD for p in pieces) == 1


def test_only_the_agents_own_name_weighs_more() -> None:
    tokenizer = WordTokenizer()
    greeting = schedule(
        _sentence("I am Ruby.", 0, 0.3, 0.6, reply=named(GREETING, "Ruby")), tokenizer
    )
    assert [p.weight for p in greeting if p.token != EPAD] == [1, 1, NAME_WEIGHT]
    other = schedule(_sentence("I am Ruby.", 0, 0.3, 0.6), tokenizer)
    assert all(p.weight == 1 for p in other)
