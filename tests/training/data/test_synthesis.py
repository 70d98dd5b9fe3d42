"""The synthesisers themselves, where they are installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtc_agent.errors import ConfigError
from rtc_agent.training.data.batch import SAMPLE_RATE
from rtc_agent.training.data.book import LOUDNESS, VOICE, Book, render_book
from rtc_agent.training.data.pool import Callers, speak_stock
from rtc_agent.training.data.synthesis import callers
from rtc_agent.training.data.synthesis.callers import CallerVoices
from rtc_agent.training.data.synthesis.espeak import HELD_OUT, Espeak
from rtc_agent.training.data.synthesis.flite import Flite
from rtc_agent.training.data.synthesis.shaping import bent, to_24k, trim

SAID = (("Hello, I am Ruby.", "greeting"), ("What is PersonaPlex?", "x"), ("Okay.", "stop"))


@pytest.fixture(scope="module")
def flite() -> Flite:
    try:
        return Flite((VOICE,))
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def voices() -> CallerVoices:
    try:
        return CallerVoices()
    except ConfigError as error:
        pytest.skip(str(error))


def test_flite_tells_when_its_words_begin(flite: Flite) -> None:
    samples, rate, starts = flite.say("two plus three is five", VOICE)
    assert len(starts) == 5
    assert starts == sorted(starts) and 0 <= starts[0] and starts[-1] < len(samples) / rate
    slower, _, _ = flite.say("two plus three is five", VOICE, stretch=1.5)
    assert len(slower) > 1.3 * len(samples)


def test_a_diphone_voice_is_as_lively_as_it_is_told() -> None:
    try:
        flite = Flite(("kal16", VOICE))
    except ConfigError as error:
        pytest.skip(str(error))
    text = "what is two plus three"
    usual, flat, lively = (flite.say(text, "kal16", lively=by)[0] for by in (1.0, 0.1, 2.5))
    again = flite.say(text, "kal16")[0]
    assert np.array_equal(usual, again)
    assert not np.array_equal(usual, flat) and not np.array_equal(usual, lively)
    # The agent's own voice is no such one: its sentences stay what they are.
    assert flite._spreads[VOICE] == 0


def test_a_book_is_trimmed_levelled_and_read_back(flite: Flite, tmp_path: Path) -> None:
    book = render_book(flite, SAID)
    assert [len(s.onsets) for s in book.sentences] == [4, 3, 1]
    import pyloudnorm

    joined = np.concatenate([s.samples for s in book.sentences])
    loudness = pyloudnorm.Meter(SAMPLE_RATE).integrated_loudness(joined)
    assert loudness == pytest.approx(LOUDNESS, abs=0.1)
    for sentence in book.sentences:
        loud = np.abs(sentence.samples) > 0.02 * np.abs(sentence.samples).max()
        assert loud.argmax() < 0.05 * SAMPLE_RATE
        assert loud[::-1].argmax() < 0.1 * SAMPLE_RATE
        assert sentence.onsets[0] < 0.1
    book.save(tmp_path)
    back = Book.load(tmp_path)
    assert back.replies == book.replies == ("nothing", "greeting", "x", "stop")
    for was, now in zip(book.sentences, back.sentences, strict=True):
        assert (was.text, was.onsets, was.reply) == (now.text, now.onsets, now.reply)
        assert np.abs(was.samples - now.samples).max() < 1e-4


def test_formants_move_without_the_pitch(flite: Flite) -> None:
    plain, rate, _ = flite.say("aha aha aha", VOICE, pitch=100)
    raw, _, _ = flite.say("aha aha aha", VOICE, pitch=100 / 1.2, stretch=1.2)
    moved = to_24k(raw, rate, formants=1.2)
    plain = to_24k(plain, rate)
    assert len(moved) == pytest.approx(len(plain), rel=0.05)

    def balance(samples: np.ndarray) -> float:
        power = np.abs(np.fft.rfft(samples)) ** 2
        hertz = np.fft.rfftfreq(len(samples), 1 / SAMPLE_RATE)
        return float((power * hertz).sum() / power.sum())

    assert balance(moved) > 1.06 * balance(plain)


def test_a_bent_utterance_has_its_sounds_at_other_times() -> None:
    clicks = np.zeros(2 * SAMPLE_RATE, np.float32)
    clicks[4_000::8_000] = 1
    moved = bent(clicks, np.random.default_rng(1), spread=0.1)
    assert len(moved) == pytest.approx(len(clicks), rel=0.1)
    gaps = np.diff(np.flatnonzero(moved > 0.2))
    gaps = gaps[gaps > 100]
    assert len(gaps) == 5
    assert gaps.std() > 100


def test_callers_are_the_same_for_the_same_chance_and_keep_their_voice(
    voices: CallerVoices,
) -> None:
    pool = Callers()
    drawn = [pool.draw(np.random.default_rng(seed)) for seed in range(4)]
    again = pool.draw(np.random.default_rng(3))
    # Not to the bit: Flite's own noise goes on from utterance to utterance.
    assert (drawn[3].text, drawn[3].speaker) == (again.text, again.speaker)
    assert len(drawn[3].samples) == pytest.approx(len(again.samples), abs=1_000)
    alike = pool.draw_alike(drawn[0].speaker, np.random.default_rng(8))
    assert alike.speaker == drawn[0].speaker
    for utterance in drawn:
        assert np.abs(utterance.samples).max() == pytest.approx(0.7, abs=0.01)


def test_held_out_voices_are_none_of_those_trained_on(voices: CallerVoices) -> None:
    rng = np.random.default_rng(0)
    apart = CallerVoices(held_out=True)
    trained = {voices.draw_speaker(rng) for _ in range(300)}
    held_out = {apart.draw_speaker(rng) for _ in range(100)}
    assert not trained & held_out
    assert {name.split("+")[-1] for name in held_out} <= HELD_OUT


@pytest.mark.parametrize("speaker", ["flite:slt", "espeak:en-us+f2"])
def test_some_callers_speak_word_by_word(
    voices: CallerVoices, monkeypatch: pytest.MonkeyPatch, speaker: str
) -> None:
    def said(text: str, share: float) -> int:
        monkeypatch.setattr(callers, "_APART_SHARE", share)
        return len(voices.say(text, speaker, np.random.default_rng(4)))

    assert said("two plus three", 1) > 1.15 * said("two plus three", 0)
    assert said("hello", 1) == pytest.approx(said("hello", 0), abs=1_000)


def test_a_voice_that_there_is_not_says_nothing(voices: CallerVoices) -> None:
    spoken = Espeak().say("hello", "xx-nowhere", words_per_minute=160, pitch=50, spread=50)
    assert len(trim(spoken)) == 0


def test_a_missing_library_is_told_with_its_package(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="libflite1"):
        Flite((VOICE,), tmp_path)
    with pytest.raises(ConfigError, match="libespeak-ng1"):
        Espeak(tmp_path / "libespeak-ng.so", tmp_path)


def test_a_stock_is_spoken_by_other_processes(voices: CallerVoices) -> None:
    stock = speak_stock(None, count=3, seed=5, workers=1)
    assert len(stock) == 3
    pool = Callers(stock=stock)
    texts = {utterance.text for utterance in stock.utterances}
    assert {pool.draw(np.random.default_rng(i)).text for i in range(20)} <= texts
    assert len(pool) == 3
