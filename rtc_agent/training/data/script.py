"""What happens in one conversation and when, before anything is made of it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.training.data.batch import (
    FRAMES,
    IGNORE,
    SAMPLE_RATE,
    CallerPool,
    Samples,
    Tokenizer,
    Utterance,
)
from rtc_agent.training.data.book import Book
from rtc_agent.training.data.lexicon import PAD, Piece
from rtc_agent.training.data.opening import Opening
from rtc_agent.training.data.sounds import SoundBank
from rtc_agent.training.data.synthesis.callers import LEAD_IN
from rtc_agent.training.data.texts.intent import ASK_NAME
from rtc_agent.training.data.texts.intents import (
    NOTHING,
    SORRY,
    STILL_THERE,
    demo_domain,
)
from rtc_agent.training.data.texts.names import answer, greeting

REPLY_GAP = 0.48
"""Seconds from the end of a caller's words to the earliest frame of the reply. Fixed, so that
greedy decoding is sure of the frame."""
GREETING_FRAME = 6
"""Live frame by which the agent greets at the latest."""
SILENCE_LIMIT = 6.0
"""Seconds in which no one speaks before the agent asks, once, whether the caller is there."""
CUT_AFTER = 0.22
"""Seconds from a caller's cutting in to the agent's falling silent."""
FADE = 960
"""Samples over which it does."""

_CUT_IN, _CALLER_FIRST, _LONG_SILENCE, _GOES_ON = 0.38, 0.18, 0.07, 0.06
_FIRST_WITHIN_S = (0.02, 0.75)
"""Of the call's beginning, when the caller speaks first, or as the agent begins to."""
_NOTICED_S = 0.2
"""Of a caller's words that keep the agent from greeting; after less it greets, and is cut short."""
_PAUSES, _PAUSE_S = 0.35, (0.08, 0.40)
"""Part of the longer utterances with a pause within, and its seconds: synthesisers and people make
some of a third of a second. Under the reply's gap by a frame, so that nothing was begun."""
_TWICE_PAUSED = 3 * SAMPLE_RATE
"""Samples from which on there may be two."""
_LONG_AFTER_QUESTION = 0.35
_SAME_SPEAKER = 0.8
_NO_SOUNDS = 0.3
_SOUND_DB = (-40, -8)
_BEGINS_WITH_SOUND, _SOUND_WITHIN_S, _FIRST_SOUND_DB = 0.25, 0.1, (-24, -3)
"""Part of the calls with sounds whose first one begins with the call: such calls were too few, and
loud ones spoiled the greeting."""


@dataclass(frozen=True, slots=True)
class Clip:
    """Samples on the caller's side."""

    samples: Samples
    onset: int
    """Sample of the live call."""
    tempo: float
    gain: float

    @property
    def length(self) -> int:
        return int(len(self.samples) / self.tempo)

    @property
    def end(self) -> int:
        return self.onset + self.length


@dataclass(slots=True)
class Said:
    """A sentence of the agent."""

    sentence: int
    frame: int
    samples: int
    """How many it has in full."""
    cut: int | None = None
    """Sample of the live call at which it begins to fade."""

    @property
    def onset(self) -> int:
        return self.frame * FRAME_SAMPLES

    @property
    def end(self) -> int:
        whole = self.onset + self.samples
        return whole if self.cut is None else min(whole, self.cut + FADE)


@dataclass(slots=True)
class Script:
    """One conversation, timed; frames and samples count from the first live frame."""

    opening: Opening
    frames: int
    """Live ones."""
    clips: list[Clip] = field(default_factory=list)
    """What the caller says."""
    sounds: list[Clip] = field(default_factory=list)
    """What else is heard there."""
    lines: list[Said] = field(default_factory=list)
    words: list[tuple[int, int, list[int]]] = field(default_factory=list)
    """First frame, frame after the last, and ids of each utterance."""
    opens: int = IGNORE
    """Reply class of the greeting that is the agent's, though the caller may be first."""
    text: npt.NDArray[np.int64] = field(init=False)
    text_weight: npt.NDArray[np.float32] = field(init=False)
    reply: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.text = np.full(self.frames, PAD, np.int64)
        self.text_weight = np.ones(self.frames, np.float32)
        self.reply = np.full(self.frames, IGNORE, np.int64)


class ScriptWriter:
    """Writes scripts.

    Args:
        pieces: the text row of each sentence of the book.
    """

    def __init__(
        self,
        book: Book,
        pieces: list[tuple[Piece, ...]],
        pool: CallerPool,
        sounds: SoundBank,
        tokenizer: Tokenizer,
    ) -> None:
        self._book, self._pieces, self._pool = book, pieces, pool
        self._sounds, self._tokenizer = sounds, tokenizer
        self._nothing = book.replies.index(NOTHING)

    def write(self, opening: Opening, rng: np.random.Generator) -> Script:
        """A conversation after this opening."""
        script = Script(opening, FRAMES - opening.frames)
        call = _Caller(self._pool, rng)
        sentence = self._book.index(greeting(opening.name))
        script.opens = self._book.reply_class(sentence)
        onset: int | None = None
        frame = int(rng.integers(3, 1 + GREETING_FRAME))
        if rng.random() < _CALLER_FIRST:
            onset = int(rng.uniform(*_FIRST_WITHIN_S) * SAMPLE_RATE)
        if onset is None or onset + _NOTICED_S * SAMPLE_RATE > frame * FRAME_SAMPLES:
            self._say(script, sentence, frame)
            self._mark(script, 0, frame, sentence)
        while True:
            if onset is None:
                onset = self._next_onset(script, rng)
            heard = self._hear(script, call, onset, rng)
            if heard is None or not self._answer(script, *heard, rng):
                break
            onset = None
        self._add_sounds(script, rng)
        return script

    def _next_onset(self, script: Script, rng: np.random.Generator) -> int:
        """When the caller speaks next, after the question whether it is there where that is due."""
        while True:
            line = script.lines[-1]
            if rng.random() < _CUT_IN and line.samples > 0.9 * SAMPLE_RATE:
                last = line.samples - 0.15 * SAMPLE_RATE
                return line.onset + int(rng.uniform(0.25 * SAMPLE_RATE, last))
            asked = self._book.sentences[line.sentence].text == STILL_THERE
            if asked and rng.random() < _LONG_AFTER_QUESTION:
                return line.end + int(rng.uniform(6, 25) * SAMPLE_RATE)
            if asked or rng.random() >= _LONG_SILENCE:
                return line.end + int(min(4.5, 0.2 + rng.exponential(0.8)) * SAMPLE_RATE)
            frame = _frame_after(line.end + SILENCE_LIMIT * SAMPLE_RATE)
            if frame >= script.frames - 4:
                return script.frames * FRAME_SAMPLES
            self._say(script, self._book.index(STILL_THERE), frame)
            self._mark(script, frame - 4, frame, script.lines[-1].sentence)

    def _hear(
        self, script: Script, caller: _Caller, onset: int, rng: np.random.Generator
    ) -> tuple[Utterance, int] | None:
        """Let the caller say something; None when the time does not suffice.

        Returns:
            What is to be answered, and the sample at which it ends.
        """
        while True:
            utterance = caller.next()
            clips = _paused(utterance.samples, onset, caller, rng)
            if clips[-1].end > script.frames * FRAME_SAMPLES - SAMPLE_RATE // 2:
                return None
            self._cut(script, onset)
            script.clips += clips
            end = clips[-1].end
            span = onset // FRAME_SAMPLES, _frame_after(end)
            script.words.append((*span, self._tokenizer.encode(utterance.text)))
            if utterance.intent == LEAD_IN:
                onset = end + int(rng.uniform(0.2, 1.1) * SAMPLE_RATE)
            elif rng.random() < _GOES_ON:
                onset = end + int(rng.uniform(0.08, 0.26) * SAMPLE_RATE)
            else:
                return utterance, end

    def _answer(
        self, script: Script, utterance: Utterance, end: int, rng: np.random.Generator
    ) -> bool:
        """Say what is right; False when no time is left to."""
        frame = _frame_after(end + REPLY_GAP * SAMPLE_RATE)
        if script.lines and (cut := script.lines[-1].cut) is not None:
            frame = max(frame, cut // FRAME_SAMPLES + 4)
        if frame >= script.frames - 2:
            return False
        sentence = self._reply(script, utterance.intent, rng)
        self._say(script, sentence, frame)
        self._mark(script, _frame_after(end) + 1, frame, sentence)
        return True

    def _reply(self, script: Script, intent: str | None, rng: np.random.Generator) -> int:
        if intent is None:
            return self._book.index(SORRY)
        if intent == ASK_NAME:
            return self._book.index(answer(script.opening.name))
        replies = demo_domain().intents[intent].replies
        return self._book.index(replies[int(rng.integers(len(replies)))])

    def _say(self, script: Script, sentence: int, frame: int) -> None:
        samples = self._book.sentences[sentence].samples
        script.lines.append(Said(sentence, frame, len(samples)))
        for piece in self._pieces[sentence]:
            at = frame + piece.frame
            if 0 <= at < script.frames:
                script.text[at] = piece.token
                script.text_weight[at] = piece.weight

    def _mark(self, script: Script, begin: int, end: int, sentence: int) -> None:
        script.reply[max(0, begin) : end] = self._book.reply_class(sentence)

    def _cut(self, script: Script, onset: int) -> None:
        """End the agent's line where the caller speaks into it."""
        cut = onset + int(CUT_AFTER * SAMPLE_RATE)
        if script.lines and script.lines[-1].cut is None and script.lines[-1].end > cut:
            script.lines[-1].cut = cut
            script.text[cut // FRAME_SAMPLES :] = PAD
            script.text_weight[cut // FRAME_SAMPLES :] = 1

    def _add_sounds(self, script: Script, rng: np.random.Generator) -> None:
        """Put sounds between the caller's words; they stop nothing and ask for nothing."""
        if rng.random() < _NO_SOUNDS:
            return
        at_once = rng.random() < _BEGINS_WITH_SOUND
        for number in range(1 + int(rng.poisson(2.5))):
            sound = self._sounds.draw(rng)
            if at_once and number == 0:
                onset = int(rng.uniform(0, _SOUND_WITHIN_S) * SAMPLE_RATE)
                level_db = rng.uniform(*_FIRST_SOUND_DB)
            else:
                onset = int(rng.integers(0, script.frames * FRAME_SAMPLES))
                level_db = rng.uniform(*_SOUND_DB)
            clip = Clip(sound, onset, rng.uniform(0.8, 1.25), 10 ** (level_db / 20))
            margin = SAMPLE_RATE // 8
            if any(
                clip.onset < c.end + margin and c.onset - margin < clip.end for c in script.clips
            ):
                continue
            script.sounds.append(clip)
            after = slice(_frame_after(clip.end), _frame_after(clip.end) + 5)
            script.reply[after] = np.where(
                script.reply[after] == IGNORE, self._nothing, script.reply[after]
            )


class _Caller:
    """One caller: mostly one voice at one tempo and level."""

    def __init__(self, pool: CallerPool, rng: np.random.Generator) -> None:
        self._pool, self._rng = pool, rng
        self._speaker = pool.draw(rng).speaker
        self._tempo = rng.uniform(0.9, 1.12)
        self._level_db = rng.uniform(-24, -3)

    def next(self) -> Utterance:
        if self._rng.random() < _SAME_SPEAKER:
            return self._pool.draw_alike(self._speaker, self._rng)
        return self._pool.draw(self._rng)

    def clip(self, samples: Samples, onset: int) -> Clip:
        gain = 10 ** ((self._level_db + self._rng.uniform(-3, 3)) / 20)
        return Clip(samples, onset, self._tempo, gain)


def _paused(samples: Samples, onset: int, caller: _Caller, rng: np.random.Generator) -> list[Clip]:
    """An utterance, sometimes with a pause at its quietest place that is shorter than the gap, or
    with two."""
    whole = caller.clip(samples, onset)
    if rng.random() >= _PAUSES or len(samples) < SAMPLE_RATE:
        return [whole]
    twice = len(samples) >= _TWICE_PAUSED and rng.random() < 0.5
    bounds = (0.15, 0.5, 0.85) if twice else (0.25, 0.75)
    clips: list[Clip] = []
    begun, at = 0, onset
    for low, high in itertools.pairwise(bounds):
        quiet = _quietest(samples, int(low * len(samples)), int(high * len(samples)))
        clips.append(Clip(samples[begun:quiet], at, whole.tempo, whole.gain))
        begun, at = quiet, clips[-1].end + int(rng.uniform(*_PAUSE_S) * SAMPLE_RATE)
    return [*clips, Clip(samples[begun:], at, whole.tempo, whole.gain)]


def _quietest(samples: Samples, first: int, last: int) -> int:
    """The middle of the quietest 20 ms between two samples."""
    block = SAMPLE_RATE // 50
    among = samples[first : first + (last - first) // block * block].reshape(-1, block)
    return first + int(np.square(among).mean(1).argmin()) * block + block // 2


def _frame_after(sample: float) -> int:
    """The first frame that begins at or after a sample."""
    return math.ceil(sample / FRAME_SAMPLES)
