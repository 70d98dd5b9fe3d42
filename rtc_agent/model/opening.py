"""Running a prompt ahead of its session, in bounded pieces.

The generators here yield after every piece, so that an engine can tick in between, and return their
result; `finish` runs one through at once.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from rtc_agent.model.codec import FrameEncoder
from rtc_agent.model.prompts import PrefillPlan, VoiceClip, VoiceCodes
from rtc_agent.model.temporal import Prefix, TemporalTransformer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Opening:
    """A prompt that was run: what a session that starts with it is given."""

    prefix: Prefix
    column: Tensor
    """[17] int64 the prompt's tokens at the first live position."""


def run_plan(
    transformer: TemporalTransformer, plan: PrefillPlan, chunk: int
) -> Generator[None, None, Opening]:
    """Run a prompt, `chunk` positions a piece. The pieces are the same at every run of a prompt,
    and so are its bits."""
    weights = transformer.weights
    with torch.inference_mode():
        inputs = transformer.embed(plan.columns.to(weights.device))
        if plan.embeddings is not None:
            inputs = torch.cat((plan.embeddings.to(inputs), inputs))
        prefill = transformer.prefill(plan.length)
    for piece in inputs.split(chunk):
        with torch.inference_mode():
            prefill.run(piece)
        yield
    with torch.inference_mode():
        return Opening(prefill.finish(), plan.pending)


def encode_clip(
    encoder: FrameEncoder, clip: VoiceClip, frames_a_piece: int = 8
) -> Generator[None, None, VoiceCodes]:
    """Encode a voice's clip with an encoder of one row, which is reset for it."""
    device = encoder.state.device
    live = torch.ones(1, dtype=torch.bool, device=device)
    codes: list[Tensor] = []
    with torch.inference_mode():
        encoder.state.reset(0)
    for frames in clip.frames.split(frames_a_piece):
        with torch.inference_mode():
            for frame in frames.to(device):
                codes.append(encoder.encode(frame[None], live)[0])
        yield
    return VoiceCodes(torch.cat(codes).cpu())


def finish(pieces: Generator[None, None, T]) -> T:
    """Run all the pieces and return their result."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result
