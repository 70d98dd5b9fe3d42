"""The recogniser that judges the agent's sound."""

from __future__ import annotations

import sys

import pytest

from rtc_agent.errors import ConfigError, MissingDependency
from rtc_agent.training.evaluation.recognition import SentenceChooser, plain_words


def test_words_are_as_recognisers_know_them() -> None:
    assert plain_words("One, two: it's PersonaPlex!") == "one two it's personaplex"


def test_without_the_recogniser_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(MissingDependency, match="pip install pocketsphinx"):
        SentenceChooser(["Goodbye."])


def test_it_tells_the_agents_sentences_apart() -> None:
    pytest.importorskip("pocketsphinx")
    from rtc_agent.training.data.book import VOICE, render_book
    from rtc_agent.training.data.synthesis.flite import Flite

    said = ["Two plus three is five.", "Two plus four is six.", "Goodbye."]
    try:
        book = render_book(Flite((VOICE,)), [(text, text) for text in said])
    except ConfigError as missing:
        pytest.skip(missing.message)
    chooser = SentenceChooser([*said, "I am a cousin of PersonaPlex."])
    # It has no sound for every word.
    assert chooser.known == sorted(plain_words(text) for text in said)
    for sentence in book.sentences:
        assert chooser.choose(sentence.samples) == plain_words(sentence.text)
