"""A model of random weights: released sizes or tiny ones, and prompts of a chosen length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from rtc_agent.engine.lockstep import LockstepParts
from rtc_agent.model.detokenizer import Detokenizer
from rtc_agent.model.prompts import SILENCE_FRAMES, Voice, VoiceCodes
from rtc_agent.model.quantised import WeightFormat
from rtc_agent.model.random_weights import random_lm, random_mimi
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.tiny import TINY_SPEC

PROMPT_FRAMES = 300
"""Frames of the prompt that openings are measured with: 24 s, a voice and a long persona."""


@dataclass(frozen=True, slots=True)
class PromptVoices:
    """Voices that differ, each making a prompt of `frames` positions."""

    bins: int
    frames: int
    names: tuple[str, ...] = ("first", "second", "third", "fourth")
    default: str | None = None
    samples: Mapping[str, str] = field(default_factory=dict)

    def load(self, name: str) -> Voice:
        generator = torch.Generator().manual_seed(self.names.index(name))
        spoken = self.frames - 2 * SILENCE_FRAMES
        return VoiceCodes(torch.randint(0, self.bins, (spoken, 8), generator=generator))


def random_model(
    device: torch.device, dtype: torch.dtype, *, tiny: bool, form: WeightFormat = "model"
) -> LockstepParts:
    """A model of random weights.

    Args:
        tiny: of the tiny agent's sizes instead of the released ones.
    """
    spec = TINY_SPEC if tiny else ModelSpec.released()
    return LockstepParts(
        spec=spec,
        lm=random_lm(spec.lm, 0, device=device, dtype=dtype, form=form),
        mimi=random_mimi(spec.mimi, 0, device=device),
        text_encoder=None,
        text_stream=lambda: Detokenizer((b"a",) * spec.lm.text_card),
        voices=PromptVoices(spec.mimi.bins, PROMPT_FRAMES),
        agent="bench",
        description="random weights",
    )
