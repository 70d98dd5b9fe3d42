"""When each piece of the agent's text is said: the text row of a sentence, frame by frame."""

from __future__ import annotations

from dataclasses import dataclass

from rtc_agent.model.spec import LmSpec
from rtc_agent.training.data.batch import FRAME_RATE, Sentence, Tokenizer
from rtc_agent.training.data.texts.intent import ASK_NAME, GREETING, kind_of
from rtc_agent.training.data.texts.names import NAMES

PAD, EPAD = LmSpec().text_pad, LmSpec().text_epad
NAME_WEIGHT = 12.0
"""Of the pieces of the agent's own name, which are few among many."""
_AHEAD = 1
"""Frames by which a word's first piece comes before its sound."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A token of the text row, at a frame counted from the sentence's first."""

    frame: int
    token: int
    weight: float = 1.0


def schedule(sentence: Sentence, tokenizer: Tokenizer) -> tuple[Piece, ...]:
    """Lay a sentence's pieces out, one a frame.

    A word's first piece comes one frame before its sound begins, or as soon as the word before
    has been written; EPAD stands in the frame before it where that is free. So the first frames
    may be negative.
    """
    pieces: list[Piece] = []
    last = -3
    named = kind_of(sentence.reply) in (GREETING, ASK_NAME)
    for word, onset in zip(sentence.text.split(), sentence.onsets, strict=True):
        weight = NAME_WEIGHT if named and word.strip(".,") in NAMES else 1.0
        frame = max(int(onset * FRAME_RATE) - _AHEAD, last + 1)
        if frame - 1 > last:
            pieces.append(Piece(frame - 1, EPAD))
        for token in tokenizer.encode(word):
            pieces.append(Piece(frame, token, weight))
            last = frame
            frame += 1
    return tuple(pieces)
