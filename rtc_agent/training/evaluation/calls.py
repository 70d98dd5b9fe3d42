"""Whole calls of an evaluation: laid out, and held by the run-time's model, many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm, SamplingSpec
from rtc_agent.model.checkpoint import load_lm, load_mimi
from rtc_agent.model.detokenizer import Detokenizer, piece_table
from rtc_agent.model.folder import ModelFolder
from rtc_agent.model.frame_model import FrameModel
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.opening import Opening, finish, run_plan
from rtc_agent.model.persona import persona_ids
from rtc_agent.model.precision import use_exact_float32
from rtc_agent.model.prompts import plan_prompt
from rtc_agent.model.weights import LmWeights
from rtc_agent.training.data.batch import EvalCase, EvalSet, Samples

_GREETING_FRAMES = 6
"""By when an agent that greets has begun to."""
_PAUSE_FRAMES = 10
"""Between the greeting and the caller."""
REPLY_FRAMES = 90
"""After the caller, for the longest reply and its delay."""
_CUT_IN = 0.5
"""Part of the greeting after which a caller cuts in on it."""
_PERSONA_IDS = 200
_GREEDY = SamplingSpec(greedy=True)


@dataclass(frozen=True, slots=True)
class Call:
    """One caller's side from the first live frame on."""

    case: EvalCase
    pcm: Samples
    begins: int
    """Sample at which the caller begins to speak."""
    ends: int
    """The sample after the caller's last."""


@dataclass(frozen=True, slots=True)
class Held:
    """A call as the agent held it."""

    call: Call
    text: tuple[str, ...]
    """What was shown on each frame."""
    pcm: Samples
    """The agent's side."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model ready to hold calls."""

    folder: ModelFolder
    lm: LmWeights
    mimi: MimiWeights

    @classmethod
    def load(cls, path: Path, device: torch.device) -> Model:
        """A folder's model, in float32 throughout.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        use_exact_float32()
        folder = ModelFolder.open(path)
        return cls(
            folder,
            load_lm(folder.lm, folder.spec.lm, device=device),
            load_mimi(folder.codec, folder.spec.mimi, device=device),
        )

    def opening(self, persona: str | None) -> Opening | None:
        """A call's prompt; None for none."""
        ids = persona_ids(self.folder.text_model(), persona, _PERSONA_IDS)
        if not ids:
            return None
        rows = FrameModel(self.folder.spec, self.lm, self.mimi, 1)
        plan = plan_prompt(self.folder.spec, None, ids)
        return finish(run_plan(rows.lm.temporal, plan, 64))


def lay_out(
    wanted: EvalSet, greeting_samples: int, reply_frames: int = REPLY_FRAMES, seed: int = 0
) -> list[Call]:
    """The set's calls, all of one length.

    Args:
        greeting_samples: how long the agent's greeting is.
        reply_frames: to go on for when the longest caller has ended.
    """
    greeting = -(-greeting_samples // FRAME_SAMPLES)
    before = _GREETING_FRAMES + (
        int(_CUT_IN * greeting) if wanted.cut_in else greeting + _PAUSE_FRAMES
    )
    longest = max((len(case.samples) for case in wanted.cases), default=0)
    frames = before + 1 + -(-longest // FRAME_SAMPLES) + reply_frames
    level = 10 ** (wanted.noise_dbfs / 20)
    calls = []
    for number, case in enumerate(wanted.cases):
        rng = np.random.default_rng((seed, number))
        pcm = rng.normal(size=frames * FRAME_SAMPLES).astype(np.float32) * np.float32(level)
        # Callers do not wait for the agent's frames to begin.
        begins = before * FRAME_SAMPLES + int(rng.integers(FRAME_SAMPLES))
        ends = begins + len(case.samples)
        pcm[begins:ends] += case.samples
        calls.append(Call(case, pcm.clip(-1, 1), begins, ends))
    return calls


def hold(
    model: Model,
    calls: Sequence[Call],
    persona: str | None = None,
    rows: int = 64,
    report: Callable[[int], None] = lambda _: None,
) -> Iterator[Held]:
    """Hold calls of one length, `rows` at a time.

    Args:
        report: told how many were held, after each batch.
    """
    table = piece_table(model.folder.text_model(), hidden=model.folder.spec.lm.unshown_text)
    with torch.inference_mode():
        opening = model.opening(persona)
    done = 0
    for at in range(0, len(calls), rows):
        part = calls[at : at + rows]
        with torch.inference_mode():
            texts, sounds = _run(model, np.stack([call.pcm for call in part]), opening)
        for call, ids, pcm in zip(part, texts, sounds, strict=True):
            stream = Detokenizer(table)
            yield Held(call, tuple(stream.push(int(id)) for id in ids), pcm)
        done += len(part)
        report(done)


def _run(model: Model, pcm: Pcm, opening: Opening | None) -> tuple[np.ndarray, Pcm]:
    """[calls, samples] of callers to text ids [calls, frames] and the agent's sound."""
    n = len(pcm)
    frames = pcm.reshape(n, -1, FRAME_SAMPLES)
    running = FrameModel(model.folder.spec, model.lm, model.mimi, n)
    for row in range(n):
        running.open(row, _GREEDY, 0, opening)
    live = np.ones(n, np.bool_)
    texts, sounds = [], []
    for index in range(frames.shape[1]):
        frame = running.step(frames[:, index], live, greedy=True)
        texts.append(frame.text)
        sounds.append(frame.pcm.copy())
    return np.array(texts).T, np.concatenate(sounds, axis=1)
