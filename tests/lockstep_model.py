"""A lock-step model of the smallest sizes that still have every part, and sessions to run on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import torch

from rtc_agent.engine.lockstep import LockstepParts, LockstepStepper
from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm, SamplingSpec, SessionSpec
from rtc_agent.model.prompts import Voice, VoiceClip, VoiceCodes
from rtc_agent.model.quantised import WeightFormat
from rtc_agent.model.random_weights import random_lm, random_mimi
from rtc_agent.model.spec import LmSpec, MimiSpec, ModelSpec

SPEC = ModelSpec(
    lm=LmSpec(
        dim=32, num_layers=2, num_heads=2, feedforward=132, context=20, window=19,
        depformer_dim=16, depformer_num_layers=1, depformer_num_heads=2, depformer_feedforward=66,
        text_card=300, card=64,
    ),
    mimi=MimiSpec(
        n_filters=4, dimension=16, transformer_layers=1, transformer_heads=2, transformer_ffn=32,
        transformer_context=9, transformer_window=8, quantizer_dimension=8, bins=64, n_q_total=8,
    ),
    silence_codes=(1, 2, 3, 4, 5, 6, 7, 8),
    sine_codes=(11, 12, 13, 14, 15, 16, 17, 18),
)  # fmt: skip


class Ids:
    """Text ids as they are, with a space after each."""

    def push(self, id: int, /) -> str:
        return f"{id} "

    def flush(self) -> str:
        return ""


class Bytes:
    """A persona's ids: one a byte."""

    def encode(self, text: str, /) -> list[int]:
        return [4 + byte for byte in text.encode()]


class TwoVoices:
    """One voice as codes, one as a recording."""

    names: tuple[str, ...] = ("coded", "recorded")
    default: str | None = None

    def __init__(self) -> None:
        self.samples: dict[str, str] = {}
        self.loads: list[str] = []

    def load(self, name: str) -> Voice:
        self.loads.append(name)
        generator = torch.Generator().manual_seed(5)
        if name == "coded":
            return VoiceCodes(torch.randint(0, 64, (9, 8), generator=generator))
        return VoiceClip.from_pcm(torch.randn(11 * FRAME_SAMPLES - 7, generator=generator) / 10)


def fresh_parts(
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    spec: ModelSpec = SPEC,
    form: WeightFormat = "model",
) -> LockstepParts:
    """A model of random weights of its own, where it is wanted."""
    return LockstepParts(
        spec=spec,
        lm=random_lm(spec.lm, 1, device=device, dtype=dtype, form=form),
        mimi=random_mimi(spec.mimi, 1, device=device),
        text_encoder=Bytes(),
        text_stream=Ids,
        voices=TwoVoices(),
        agent="test",
        description="A model for tests.",
    )


@cache
def _parts() -> LockstepParts:
    return fresh_parts(torch.device("cpu"))


def parts(**changes: object) -> LockstepParts:
    """The model's parts, with voices of their own."""
    return replace(_parts(), **{"voices": TwoVoices(), **changes})  # type: ignore[arg-type]


def stepper(slots: int, bank_rows: int | None = None, **changes: object) -> LockstepStepper:
    torch.set_num_threads(1)
    return LockstepStepper(
        parts(**changes), slots, bank_rows=bank_rows, prefill_chunk=8, random_seed=lambda: 99
    )


def noise(seed: int, frames: int) -> Pcm:
    """[frames, FRAME_SAMPLES] of a caller who hisses."""
    pcm = np.random.default_rng(seed).normal(size=(frames, FRAME_SAMPLES)) * 0.1
    return pcm.astype(np.float32)


GREEDY = SessionSpec(sampling=SamplingSpec(greedy=True))
SAMPLED = SessionSpec(sampling=SamplingSpec(seed=4))
PROMPTED = SessionSpec("coded", "Be kind.", SamplingSpec(seed=2**40 + 1))


@dataclass
class Said:
    """What a session gave, frame by frame."""

    pcm: list[Pcm] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Said)
            and self.text == other.text
            and len(self.pcm) == len(other.pcm)
            and all(np.array_equal(a, b) for a, b in zip(self.pcm, other.pcm, strict=True))
        )


def open_slot(engine: LockstepStepper, slot: int, spec: SessionSpec) -> int:
    """Open at once; how many pieces it took."""
    return sum(1 for _ in engine.open(slot, spec))


def step_one(engine: LockstepStepper, slot: int, frame: Pcm, said: Said) -> None:
    """Step one slot and keep what it gave."""
    pcm = np.zeros((engine.slots, FRAME_SAMPLES), np.float32)
    pcm[slot] = frame
    live = np.zeros(engine.slots, np.bool_)
    live[slot] = True
    result = engine.step(pcm, live)
    assert not result.failed
    said.pcm.append(result.pcm[slot].copy())
    said.text.append(result.text.get(slot, ""))


def run_alone(
    engine: LockstepStepper, slot: int, spec: SessionSpec, frames: Iterable[Pcm] | Sequence[Pcm]
) -> Said:
    """A whole session with nobody beside it, the slot free before and after."""
    said = Said()
    open_slot(engine, slot, spec)
    for frame in frames:
        step_one(engine, slot, frame, said)
    engine.close(slot)
    return said
