"""One tick of the whole model: caller's frames in, agent's frames out, for a fixed number of rows.

Nothing here waits for the device, allocates by who is live, or lets one row see another; so it may
be captured as a graph, and a row's bits do not depend on its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rtc_agent.engine.stepper import Mask, Pcm, SamplingSpec
from rtc_agent.model.code2wav import decoded_silence
from rtc_agent.model.mimi import MimiDecoder
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.opening import Opening
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.talker import RowState, TalkerModel
from rtc_agent.model.weights import LmWeights


@dataclass(frozen=True, slots=True)
class ModelFrame:
    """What a tick gave each row; all of it on the model's device."""

    pcm: Tensor
    """[rows, 1920] float32; zeros in rows that sat out or have no frame yet."""
    text: Tensor
    """[rows] int64 text id of the same frame; start-of-stream where there is none yet."""
    healthy: Tensor
    """[rows] bool: everything computed for the row was finite."""
    codes: Tensor
    """[rows, 8] int64 what `pcm` was decoded from."""
    user_codes: Tensor
    """[rows, 8] int64 what the caller's frame was encoded to."""


@dataclass(frozen=True, slots=True)
class HostFrame:
    """What a tick gave each row, in the host's memory; `pcm` is good until the next tick."""

    pcm: Pcm
    """[rows, 1920], as `ModelFrame.pcm`."""
    text: list[int]
    healthy: list[bool]


class FrameModel(TalkerModel):
    """Codec, language model and their state for `rows` sessions."""

    def __init__(self, spec: ModelSpec, lm: LmWeights, mimi: MimiWeights, rows: int) -> None:
        super().__init__(spec, lm, mimi, rows)
        self.decoder = MimiDecoder(spec.mimi, mimi, rows)
        self.speaking: RowState = self.decoder.state
        self._after_silence = decoded_silence(
            spec, self.decoder.decode, self.speaking, rows, lm.device
        )

    def run(self, pcm: Tensor, live: Tensor, *, greedy: bool = False) -> ModelFrame:
        """Advance every live row by one frame.

        Args:
            pcm: [rows, 1920] float32 caller audio at 24 kHz; rows not live are ignored.
            live: [rows] bool.
            greedy: whether every live row is known to be.
        """
        talk = self.talk(pcm, live, greedy=greedy)
        said = self.decoder.decode(talk.codes, talk.speaking)
        healthy = talk.healthy & said.isfinite().all(-1)
        said = torch.where(talk.speaking[:, None], said, 0.0)
        return ModelFrame(said, talk.text, healthy, talk.codes, talk.user_codes)

    def step(self, pcm: Pcm, live: Mask, *, greedy: bool = False) -> HostFrame:
        """As `run`, from the host's memory and back."""
        device = self.lm.weights.device
        heard = torch.from_numpy(np.ascontiguousarray(pcm)).to(device)
        frame = self.run(heard, torch.from_numpy(live).to(device), greedy=greedy)
        return HostFrame(frame.pcm.cpu().numpy(), frame.text.tolist(), frame.healthy.tolist())

    def positions(self) -> tuple[Tensor, ...]:
        return (*super().positions(), self.speaking.position)

    def open(self, row: int, sampling: SamplingSpec, seed: int, opening: Opening | None) -> None:
        """Make a row as new and start a session in it, after a prompt or from nothing."""
        super().open(row, sampling, seed, opening)
        if opening is None:
            self.speaking.reset(row)
        else:
            self.speaking.restore(row, self._after_silence)
