from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rtc_agent.errors import ConfigError
from rtc_agent.training.data.archive import DemoData
from rtc_agent.training.data.batch import Utterance
from rtc_agent.training.data.book import Book
from rtc_agent.training.data.pool import Recordings
from rtc_agent.training.data.synthesis.festival import VOICES
from rtc_agent.training.data.texts.intents import SORRY, demo_domain
from rtc_agent.training.tokenizer import TOKENIZER
from tests.training.data.toys import ToyPool, WordTokenizer, hum, toy_book


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A prepared folder, but for the synthesisers, with hums for voices."""
    (tmp_path / "lib").mkdir()
    Book([replace(s, samples=hum(1)) for s in toy_book().sentences]).save(tmp_path)
    intents = ("ask-name", "hello", None)
    speakers = (*(f"festival:{voice}" for voice in VOICES), "espeak:en+Annie", "human")
    said = [Utterance(hum(2), str(i), i, speaker) for i in intents for speaker in speakers]
    for name in ("festival", "espeak", "human"):
        mine = [u for u in said if u.speaker.startswith(name)]
        Recordings(mine).save(tmp_path / "evaluation" / name)
    return tmp_path


def test_a_prepared_folder_gives_training_all_it_takes(folder: Path) -> None:
    data = DemoData(folder)
    assert data.greeting in {s.text for s in data.book.sentences}
    assert data.still_there in {s.text for s in data.book.sentences}
    assert data.kinds >= 60
    assert "<system> Your name is Ruby. <system>" in data.texts
    assert data.greeting in data.texts and "what is two plus three" in data.texts
    batch = data.source(WordTokenizer(), ToyPool()).batch(1, np.random.default_rng(0))
    assert len(batch.text) == 1


def test_what_a_newcomer_is_told_to_ask_can_be_answered(folder: Path) -> None:
    known = {said for intent in demo_domain().intents.values() for said in intent.says}
    for example in DemoData(folder).examples:
        plain = re.sub(r"[.?]", "", example.lower()).replace("personaplex", "persona plex")
        assert plain in known


def test_evaluation_sets_expect_what_the_persona_demands(folder: Path) -> None:
    sets = {wanted.name: wanted for wanted in DemoData(folder).evaluation()}
    assert {f"Festival {voice}" for voice in VOICES} <= sets.keys()
    for voice in VOICES:
        assert {c.speaker for c in sets[f"Festival {voice}"].cases} == {f"festival:{voice}"}
    ruby = sets["persona Ruby"]
    assert ruby.persona == "Your name is Ruby."
    by_intent = {case.intent: case for case in ruby.cases}
    assert by_intent["ask-name"].expected == {"My name is Ruby."}
    assert by_intent[None].expected == {SORRY} and by_intent[None].kind == "out-of-domain"
    assert sets["the same, noise at −33 dBFS"].noise_dbfs == -33
    assert sets["the same, cutting in on the greeting"].cut_in
    sounds = sets["sounds that are no speech"].cases
    assert len(sounds) > 40 and not any(case.expected for case in sounds)


def test_kokoros_callers_are_there_where_they_were_spoken(folder: Path) -> None:
    name = "Kokoro, a held-out voice"
    assert name not in {wanted.name for wanted in DemoData(folder).evaluation()}
    said = [Utterance(hum(2), "hello", "hello", "kokoro:held-out")]
    Recordings(said).save(folder / "evaluation" / "kokoro")
    Recordings(said * 3).save(folder / "callers" / "kokoro")
    data = DemoData(folder, stock=0)
    (cases,) = (wanted.cases for wanted in data.evaluation() if wanted.name == name)
    assert [case.speaker for case in cases] == ["kokoro:held-out"]
    assert cases[0].expected == set(demo_domain().intents["hello"].replies)
    assert len(data.pool()) == 3


def test_a_folder_that_is_not_prepared_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="book"):
        DemoData(tmp_path)
    toy = Book(toy_book().sentences[:3])
    toy.save(tmp_path)
    with pytest.raises(ConfigError, match="prepare"):
        DemoData(tmp_path)


def test_the_tokenizer_that_was_made_with_it_is_told(folder: Path) -> None:
    assert DemoData(folder).tokenizer is None
    (folder / TOKENIZER).write_bytes(b"made")
    assert DemoData(folder).tokenizer == folder / TOKENIZER
