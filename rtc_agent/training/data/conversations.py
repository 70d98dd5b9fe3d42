"""Scripts to tensors: whole batches of conversations, drawn anew for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.model.prompts import SILENCE_FRAMES
from rtc_agent.training.data.batch import (
    FRAMES,
    IGNORE,
    CallerPool,
    ConversationBatch,
    Samples,
    Tokenizer,
)
from rtc_agent.training.data.book import Book
from rtc_agent.training.data.lexicon import PAD, schedule
from rtc_agent.training.data.opening import clip_choices, draw_opening
from rtc_agent.training.data.script import FADE, Clip, Script, ScriptWriter
from rtc_agent.training.data.sounds import SoundBank

_SOUNDS_SEED = 1


@cache
def _sounds() -> SoundBank:
    """Made once in a process."""
    return SoundBank(_SOUNDS_SEED)


class Conversations:
    """Draws conversations between callers of a pool and the agent of a book."""

    def __init__(self, book: Book, pool: CallerPool, tokenizer: Tokenizer) -> None:
        self._book, self._tokenizer = book, tokenizer
        self._clips = clip_choices(book.sentences)
        pieces = [schedule(sentence, tokenizer) for sentence in book.sentences]
        self._writer = ScriptWriter(book, pieces, pool, _sounds(), tokenizer)

    def script(self, rng: np.random.Generator) -> Script:
        """One conversation's script alone."""
        opening = draw_opening(self._book.sentences, self._clips, self._tokenizer, rng)
        return self._writer.write(opening, rng)

    def batch(self, n: int, rng: np.random.Generator) -> ConversationBatch:
        """`n` conversations; the same for a generator of the same state and a pool such as
        `Callers`."""
        return compose([self.script(rng) for _ in range(n)], self._book)


def compose(scripts: Sequence[Script], book: Book) -> ConversationBatch:
    """Make what the scripts say."""
    words = [[token for *_, ids in s.words for token in ids] for s in scripts]
    openings = [s.opening for s in scripts]
    return ConversationBatch(
        agent=_tracks(scripts, lambda script, track: _speak(script, book, track)),
        caller=_tracks(scripts, _call),
        text=_rows([_persona_row(s) for s in scripts], [s.text for s in scripts]),
        prompt_frames=torch.tensor([o.frames for o in openings]),
        voice=torch.tensor([o.voice for o in openings]),
        voice_frames=torch.tensor([o.voice_frames for o in openings]),
        text_weight=_after_prompt(scripts, [s.text_weight for s in scripts], 0.0),
        speaking=_after_prompt(scripts, [_speaking(s) for s in scripts], False),
        words=_padded(words, IGNORE),
        words_count=torch.tensor([len(row) for row in words]),
        spans=_spans(scripts),
        span_words=_padded([[len(ids) for *_, ids in s.words] for s in scripts], 0),
        reply=_replies(scripts),
    )


def _tracks(scripts: Sequence[Script], fill: Callable[[Script, Samples], None]) -> Tensor:
    """[n, FRAMES · 1920]: each script's live call, silent but for what `fill` adds to it."""
    tracks = np.zeros((len(scripts), FRAMES * FRAME_SAMPLES), np.float32)
    for script, track in zip(scripts, tracks, strict=True):
        fill(script, track[: script.frames * FRAME_SAMPLES])
    return torch.from_numpy(tracks)


def _speak(script: Script, book: Book, track: Samples) -> None:
    for line in script.lines:
        samples = book.sentences[line.sentence].samples[: line.end - line.onset]
        if line.cut is not None and len(samples) < line.samples:
            samples = samples.copy()
            samples[-FADE:] *= np.linspace(1, 0, min(FADE, len(samples)), dtype=np.float32)
        _add(track, samples, line.onset)


def _call(script: Script, track: Samples) -> None:
    for clip in (*script.clips, *script.sounds):
        _add(track, _resampled(clip), clip.onset)


def _resampled(clip: Clip) -> Samples:
    """At the clip's tempo, all frequencies with it, by linear interpolation; with its gain."""
    at = np.arange(clip.length, dtype=np.float32) * np.float32(clip.tempo)
    before = at.astype(np.int32)
    after = np.minimum(before + 1, len(clip.samples) - 1)
    part = at - before
    heard = clip.samples[before] * (1 - part) + clip.samples[after] * part
    return np.asarray(heard * np.float32(clip.gain), np.float32)


def _add(track: Samples, samples: Samples, onset: int) -> None:
    """Mix in what the track has room for."""
    part = track[onset : onset + len(samples)]
    part += samples[: len(part)]


def _speaking(script: Script) -> npt.NDArray[np.bool_]:
    frames = np.zeros(script.frames, bool)
    for line in script.lines:
        frames[line.frame : -(-line.end // FRAME_SAMPLES)] = True
    return frames


def _persona_row(script: Script) -> npt.NDArray[np.int64]:
    opening = script.opening
    row = np.full(opening.frames, PAD, np.int64)
    if opening.persona:
        row[opening.persona_frame : opening.persona_frame + len(opening.persona)] = opening.persona
    return row


def _rows(
    prompts: Sequence[npt.NDArray[np.int64]], lives: Sequence[npt.NDArray[np.int64]]
) -> Tensor:
    rows = [np.concatenate(pair) for pair in zip(prompts, lives, strict=True)]
    return torch.from_numpy(np.stack(rows))


def _after_prompt(
    scripts: Sequence[Script], rows: Sequence[npt.NDArray[np.generic]], prompt: float | bool
) -> Tensor:
    """[n, FRAMES]: rows of the live frames behind a constant in the prompt's."""
    out = np.full((len(scripts), FRAMES), prompt, rows[0].dtype)
    for whole, script, row in zip(out, scripts, rows, strict=True):
        whole[script.opening.frames :] = row
    return torch.from_numpy(out)


def _replies(scripts: Sequence[Script]) -> Tensor:
    """[n, FRAMES]: with whose greeting is due in the prompt's last silence too, where the persona
    has been read and nothing of the agent's own sound can have told it."""
    out = _after_prompt(scripts, [s.reply for s in scripts], IGNORE)
    for row, script in zip(out, scripts, strict=True):
        live = script.opening.frames
        row[max(0, live - SILENCE_FRAMES) : live] = script.opens
    return out


def _padded(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    out = torch.full((len(rows), max(1, *map(len, rows), 1)), fill)
    for whole, row in zip(out, rows, strict=True):
        whole[: len(row)] = torch.tensor(row, dtype=torch.long)
    return out


def _spans(scripts: Sequence[Script]) -> Tensor:
    """Spans in frames of the conversation, the prompt's included."""
    most = max(1, *(len(s.words) for s in scripts), 1)
    out = torch.full((len(scripts), most, 2), IGNORE)
    for row, script in zip(out, scripts, strict=True):
        for i, (first, after, _) in enumerate(script.words):
            ends = torch.tensor([first, min(after, script.frames)])
            row[i] = ends + script.opening.frames
    return out
