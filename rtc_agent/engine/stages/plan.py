"""What a code2wav has to know to make itself, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from rtc_agent import logs
from rtc_agent.engine.devices import choose_device
from rtc_agent.engine.stages.memory import Layout
from rtc_agent.model.backend import backend_for
from rtc_agent.model.checkpoint import load_mimi
from rtc_agent.model.code2wav import Code2WavModel
from rtc_agent.model.folder import ModelFolder
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.precision import use_exact_float32
from rtc_agent.model.random_weights import random_mimi
from rtc_agent.model.spec import MOSHI, PERSONAPLEX, ModelSpec
from rtc_agent.model.tiny import TINY_SPEC


@dataclass(frozen=True, slots=True)
class Code2WavPlan:
    """Plain values, so that they can be sent to another process."""

    model: Path | None
    """The model's folder; None: the tiny agent's random weights."""
    moshi: bool
    """Whether the folder is of Moshi's family."""
    device: str
    kernels: bool
    cpu_threads: int
    bank_rows: int
    layout: Layout
    log_level: logs.Level
    log_format: Literal["text", "json"]

    @property
    def banks(self) -> int:
        return self.layout.slots // self.bank_rows


def bank_maker(plan: Code2WavPlan) -> Callable[[], Code2WavModel]:
    """Loads the codec and gives what makes a bank of it.

    Raises:
        ConfigError, CheckpointError: what is wrong, and what to change.
    """
    device = choose_device(plan.device)
    if device.type == "cpu":
        torch.set_num_threads(plan.cpu_threads)
    use_exact_float32()
    backend = backend_for(device, kernels=plan.kernels)
    spec, mimi = _codec(plan, device)
    half = mimi.decoder_half()
    return lambda: backend.code2wav(spec, half, plan.bank_rows)


def _codec(plan: Code2WavPlan, device: torch.device) -> tuple[ModelSpec, MimiWeights]:
    if plan.model is None:
        return TINY_SPEC, random_mimi(TINY_SPEC.mimi, 0, device=device)
    folder = ModelFolder.open(plan.model, family=MOSHI if plan.moshi else PERSONAPLEX)
    return folder.spec, load_mimi(folder.codec, folder.spec.mimi, device=device)
