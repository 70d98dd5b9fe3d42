"""What must hold for every conversation, whatever was drawn."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.training.data.batch import FRAMES, IGNORE, SAMPLE_RATE
from rtc_agent.training.data.conversations import Conversations
from rtc_agent.training.data.lexicon import EPAD, PAD
from rtc_agent.training.data.script import (
    _NOTICED_S,
    CUT_AFTER,
    FADE,
    GREETING_FRAME,
    REPLY_GAP,
    SILENCE_LIMIT,
    Script,
    _Caller,
    _paused,
)
from rtc_agent.training.data.texts.intents import OUT_OF_DOMAIN, STILL_THERE
from tests.training.data.toys import ToyPool, WordTokenizer, hum, toy_book

seeds = st.integers(0, 2**31)
GAP = int(REPLY_GAP * SAMPLE_RATE)
NOTICED = _NOTICED_S * SAMPLE_RATE


@cache
def _source() -> Conversations:
    return Conversations(toy_book(), ToyPool(), WordTokenizer())


def _script(seed: int) -> Script:
    return _source().script(np.random.default_rng(seed))


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_the_agent_answers_at_its_time_and_never_into_a_callers_words(seed: int) -> None:
    script = _script(seed)
    assert script.frames == FRAMES - script.opening.frames
    for number, line in enumerate(script.lines):
        # Of who begins as the agent does, too little is heard yet.
        unheard = NOTICED if number == 0 else 0
        earlier = [clip for clip in script.clips if clip.onset + unheard < line.onset]
        if not earlier or toy_book().sentences[line.sentence].text == STILL_THERE:
            continue
        assert line.onset - max(clip.end for clip in earlier) >= GAP
    for before, after in zip(script.lines, script.lines[1:], strict=False):
        assert before.end <= after.onset


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_the_agent_falls_silent_soon_after_it_is_cut_in_on(seed: int) -> None:
    script = _script(seed)
    late = int(CUT_AFTER * SAMPLE_RATE) + FADE
    for line in script.lines:
        for clip in script.clips:
            if line.onset <= clip.onset < line.end:
                assert line.end <= clip.onset + late


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_sounds_neither_stop_the_agent_nor_cover_a_caller(seed: int) -> None:
    script = _script(seed)
    for sound in script.sounds:
        assert all(sound.end <= c.onset or c.end <= sound.onset for c in script.clips)
    for line in script.lines:
        if line.cut is not None:
            spoken = [c.onset for c in script.clips]
            assert line.cut - int(CUT_AFTER * SAMPLE_RATE) in spoken


def test_calls_that_begin_with_a_loud_sound_are_greeted_all_the_same() -> None:
    book, greeted, loud = toy_book(), 0, 0
    scripts = [_script(seed) for seed in range(80)]
    begun = [s for s in scripts if s.sounds and s.sounds[0].onset <= SAMPLE_RATE // 10]
    assert 4 < len(begun) < 32
    for script in begun:
        sound, line = script.sounds[0], script.lines[0]
        assert 0 <= sound.onset and sound.gain <= 10 ** (-3 / 20)
        loud += sound.gain > 10 ** (-8 / 20)
        if script.clips and script.clips[0].onset < line.onset - NOTICED:
            continue
        assert book.reply_class(line.sentence) == script.opens == script.reply[0]
        assert line.frame <= GREETING_FRAME
        greeted += 1
    assert greeted > 3 and loud


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_the_text_row_holds_what_is_said_uncut(seed: int) -> None:
    source, script = _source(), _script(seed)
    tokenizer = source._tokenizer
    assert isinstance(tokenizer, WordTokenizer)
    shown = [int(token) for token in script.text if token not in (PAD, EPAD)]
    said = [toy_book().sentences[line.sentence].text for line in script.lines]
    if all(line.cut is None and line.end <= script.frames * FRAME_SAMPLES for line in script.lines):
        assert tokenizer.decode(shown) == " ".join(said)
    else:
        whole = " ".join(said).split()
        assert all(word in whole for word in tokenizer.decode(shown).split())


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_a_reply_class_is_told_before_each_reply(seed: int) -> None:
    script = _script(seed)
    book = toy_book()
    for line in script.lines[1:]:
        told = script.reply[line.frame - 1]
        assert told == book.reply_class(line.sentence)
    assert ((script.reply == IGNORE) | (script.reply < len(book.replies))).all()


def test_a_long_silence_brings_one_question_and_no_second() -> None:
    book, asked = toy_book(), 0
    for seed in range(60):
        script = _script(seed)
        still = [book.sentences[line.sentence].text == STILL_THERE for line in script.lines]
        assert not any(a and b for a, b in zip(still, still[1:], strict=False))
        asked += sum(still)
        for before, line, is_still in zip(script.lines, script.lines[1:], still[1:], strict=False):
            if is_still:
                waited = line.onset - before.end
                assert 0 <= waited - SILENCE_LIMIT * SAMPLE_RATE < FRAME_SAMPLES
    assert asked > 5


def test_callers_pause_for_nearly_as_long_as_the_agent_waits_and_no_longer() -> None:
    caller = _Caller(ToyPool(), np.random.default_rng(0))
    samples = np.concatenate((hum(14), np.zeros(1_000, np.float32), hum(1)))
    pauses, twice = [], 0
    for seed in range(200):
        clips = _paused(samples, 500, caller, np.random.default_rng(seed))
        assert np.array_equal(np.concatenate([c.samples for c in clips]), samples)
        assert clips[0].onset == 500
        pauses += [b.onset - a.end for a, b in itertools.pairwise(clips)]
        twice += len(clips) == 3
    assert 0.2 < len(pauses) / 200 < 0.5 and twice > 10
    assert 0.08 * SAMPLE_RATE - 1 <= min(pauses) < 0.12 * SAMPLE_RATE
    assert 0.28 * SAMPLE_RATE < max(pauses) < GAP - 0.05 * SAMPLE_RATE
    assert len(_paused(hum(3), 0, caller, np.random.default_rng(0))) == 1


def test_a_pause_is_where_it_is_quietest() -> None:
    caller = _Caller(ToyPool(), np.random.default_rng(0))
    samples = np.concatenate((hum(4), np.zeros(1_500, np.float32), hum(4)))
    cuts = {
        len(clips[0].samples)
        for seed in range(40)
        if len(clips := _paused(samples, 0, caller, np.random.default_rng(seed))) == 2
    }
    assert cuts and all(len(hum(4)) <= cut <= len(hum(4)) + 1_500 for cut in cuts)


def test_all_that_a_call_may_bring_comes_about() -> None:
    book = toy_book()
    scripts = [_script(seed) for seed in range(80)]
    assert any(s.opening.frames == 0 for s in scripts)
    assert any(s.opening.voice != IGNORE and s.opening.persona for s in scripts)
    assert any(s.clips and s.clips[0].onset < s.lines[0].onset - NOTICED for s in scripts)
    begun = [s for s in scripts if s.clips and abs(s.clips[0].onset - s.lines[0].onset) < NOTICED]
    assert begun and all(s.lines[0].cut is not None and s.lines[0].frame < 7 for s in begun)
    assert any(line.cut is not None for s in scripts for line in s.lines)
    assert any(s.sounds for s in scripts)
    classes = {book.sentences[line.sentence].reply for s in scripts for line in s.lines}
    assert OUT_OF_DOMAIN in classes
    assert len({s.opening.name for s in scripts}) > 10
