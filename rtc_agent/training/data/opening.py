"""What a conversation opens with: a voice, a persona, both or neither."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.model.persona import wrap_persona
from rtc_agent.model.prompts import SILENCE_FRAMES
from rtc_agent.training.data.batch import IGNORE, SAMPLE_RATE, Sentence, Tokenizer
from rtc_agent.training.data.texts.intent import ASK_NAME, GREETING, kind_of
from rtc_agent.training.data.texts.names import DEFAULT_NAME, draw_persona

_VOICED, _PERSONA = 0.45, 0.65
_SHORTEST_CLIP = 1.6


@dataclass(frozen=True, slots=True)
class Opening:
    """A prompt as `plan_prompt` lays it out: voice, silence, persona, silence."""

    voice: int
    """The book's sentence that is the voice's clip; IGNORE is none."""
    voice_frames: int
    persona: tuple[int, ...]
    """Text ids, wrapped; empty for none."""
    name: str
    """What the agent must call itself."""

    @property
    def frames(self) -> int:
        """Of the whole prompt; a call with neither voice nor persona has none."""
        if not self.persona and self.voice == IGNORE:
            return 0
        return self.voice_frames + 2 * SILENCE_FRAMES + len(self.persona)

    @property
    def persona_frame(self) -> int:
        """The frame of the persona's first id."""
        return self.voice_frames + SILENCE_FRAMES


def clip_choices(sentences: Sequence[Sentence]) -> list[int]:
    """Sentences that may serve as a voice's clip: long enough, and without a name of the agent,
    which must come from the persona alone."""
    return [
        i
        for i, sentence in enumerate(sentences)
        if len(sentence.samples) >= _SHORTEST_CLIP * SAMPLE_RATE
        and kind_of(sentence.reply) not in (GREETING, ASK_NAME)
    ]


def draw_opening(
    sentences: Sequence[Sentence],
    clips: Sequence[int],
    tokenizer: Tokenizer,
    rng: np.random.Generator,
) -> Opening:
    """An opening as callers may choose it.

    Args:
        clips: `clip_choices` of the sentences.
    """
    voice, frames = IGNORE, 0
    if rng.random() < _VOICED:
        voice = clips[int(rng.integers(len(clips)))]
        frames = math.ceil(len(sentences[voice].samples) / FRAME_SAMPLES)
    if rng.random() >= _PERSONA:
        return Opening(voice, frames, (), DEFAULT_NAME)
    text, name = draw_persona(rng)
    return Opening(voice, frames, tuple(tokenizer.encode(wrap_persona(text))), name)
