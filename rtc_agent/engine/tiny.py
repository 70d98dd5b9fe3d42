"""The tiny agent: the real stepper over weights made on the fly."""

from __future__ import annotations

import torch

from rtc_agent.engine.lockstep import LockstepParts, NoVoices
from rtc_agent.model.detokenizer import Detokenizer, piece_table
from rtc_agent.model.random_weights import random_lm, random_mimi
from rtc_agent.model.tiny import TINY_SPEC, LetterTokenizer


def tiny_model(seed: int = 0, device: torch.device | str = "cpu") -> LockstepParts:
    """The parts of the tiny agent; the same seed makes the same agent."""
    tokenizer = LetterTokenizer()
    table = piece_table(tokenizer)
    return LockstepParts(
        spec=TINY_SPEC,
        lm=random_lm(TINY_SPEC.lm, seed, device=device),
        mimi=random_mimi(TINY_SPEC.mimi, seed, device=device),
        text_encoder=tokenizer,
        text_stream=lambda: Detokenizer(table),
        voices=NoVoices(),
        agent="tiny",
        description="A tiny model of random weights: real code, sound without meaning.",
    )
