"""The smallest model folder that a server can serve, of random weights."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from rtc_agent.model.folder import Domain
from rtc_agent.model.spec import ModelSpec
from rtc_agent.training.codec_init import new_codec
from rtc_agent.training.lm_init import new_lm
from rtc_agent.training.model_folder import ModelContents, write_model
from rtc_agent.training.tokenizer import train_tokenizer
from tests.lockstep_model import SPEC as LOCKSTEP

SPEC: ModelSpec = replace(
    LOCKSTEP,
    lm=replace(
        LOCKSTEP.lm,
        context=61,
        window=60,
        depformer_checkpoint_steps=8,
        depformer_window=7,
        text_card=120,
    ),
)
TEXTS = (
    "Hello, I am Nova. How can I help you?",
    "Two plus three is five.",
    "what is two plus three",
    "tell me a joke",
    "<system> You are Nova, a friendly voice. <system>",
)
DOMAIN = Domain(3, ("what is two plus three", "tell me a joke"))


@cache
def _weights() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    return new_lm(SPEC.lm, 1).export(), _codec()


def _codec() -> dict[str, Tensor]:
    chance = torch.Generator().manual_seed(2)
    codec = new_codec(SPEC.mimi, 2).export()
    for key, tensor in codec.items():
        if key.endswith("embedding_sum"):
            codec[key] = torch.randn(tensor.shape, generator=chance)
    return codec


def write_small_model(folder: Path, spec: ModelSpec = SPEC) -> Path:
    """A whole folder; its text is noise and its sound too."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = folder / "trained.model"
    train_tokenizer(TEXTS, tokenizer, spec.lm)
    lm, codec = _weights()
    write_model(folder, ModelContents(spec, lm, codec, tokenizer, DOMAIN))
    tokenizer.unlink()
    return folder
