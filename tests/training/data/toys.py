"""A book and a pool of the whole domain without a synthesiser: hums of the right lengths."""

from __future__ import annotations

from functools import cache

import numpy as np

from rtc_agent.training.data.batch import SAMPLE_RATE, Samples, Sentence, Utterance
from rtc_agent.training.data.book import Book
from rtc_agent.training.data.synthesis.callers import draw_text
from rtc_agent.training.data.texts.intents import demo_domain

_WORD_S = 0.25
_HUM: Samples = (0.3 * np.sin(np.arange(12 * SAMPLE_RATE) / 30)).astype(np.float32)


def hum(words: int) -> Samples:
    return _HUM[: int(words * _WORD_S * SAMPLE_RATE)]


@cache
def toy_book() -> Book:
    sentences = []
    for text, reply in demo_domain().replies():
        words = len(text.split())
        onsets = tuple(i * _WORD_S for i in range(words))
        sentences.append(Sentence(text, hum(words), onsets, reply))
    return Book(sentences)


class ToyPool:
    """Says anything in a hum."""

    def __len__(self) -> int:
        return 1

    def draw(self, rng: np.random.Generator) -> Utterance:
        return self.draw_alike("hummer", rng)

    def draw_alike(self, speaker: str, rng: np.random.Generator) -> Utterance:
        text, intent = draw_text(rng)
        return Utterance(hum(len(text.split())), text, intent, speaker)


class WordTokenizer:
    """One id a word, from 10 on, in the order of first use."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def encode(self, text: str, /) -> list[int]:
        for word in text.split():
            if word not in self.words:
                self.words.append(word)
        return [10 + self.words.index(word) for word in text.split()]

    def decode(self, ids: list[int]) -> str:
        return " ".join(self.words[i - 10] for i in ids if i >= 10)
