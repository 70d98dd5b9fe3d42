"""One tick of the whole model: caller's frames in, agent's frames out, for a fixed number of rows.

Nothing here waits for the device, allocates by who is live, or lets one row see another; so it may
be captured as a graph, and a row's bits do not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from rtc_agent.engine.stepper import Mask, Pcm, SamplingSpec
from rtc_agent.model.lm import LanguageModel
from rtc_agent.model.mimi import MimiDecoder, MimiEncoder
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.opening import Opening
from rtc_agent.model.spec import ModelSpec
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


class RowState(Protocol):
    """State that sessions carry from frame to frame, one row each."""

    position: Tensor
    """[rows] int64 frames run."""

    def reset(self, row: int) -> None:
        """Make a row as new."""
        ...

    def save(self, row: int) -> list[Tensor]:
        """A copy of a row's state."""
        ...

    def restore(self, row: int, saved: Sequence[Tensor]) -> None:
        """Give a row the state of another."""
        ...


class FrameModel:
    """Codec, language model and their state for `rows` sessions."""

    def __init__(self, spec: ModelSpec, lm: LmWeights, mimi: MimiWeights, rows: int) -> None:
        self.spec = spec
        self.rows = rows
        self.lm = LanguageModel(spec.lm, lm, rows)
        self.encoder = MimiEncoder(spec.mimi, mimi, rows)
        self.decoder = MimiDecoder(spec.mimi, mimi, rows)
        self.hearing: RowState = self.encoder.state
        self.speaking: RowState = self.decoder.state
        self._after_silence = self._decoded_silence()

    def run(self, pcm: Tensor, live: Tensor, *, greedy: bool = False) -> ModelFrame:
        """Advance every live row by one frame.

        Args:
            pcm: [rows, 1920] float32 caller audio at 24 kHz; rows not live are ignored.
            live: [rows] bool.
            greedy: whether every live row is known to be.
        """
        heard = torch.where(live[:, None], pcm, 0.0)
        user_codes, heard_finite = self.encoder.encode(heard, live)
        speaking = live & (self.lm.state.position > 0)
        frame = self.lm.tick(user_codes, live, greedy=greedy)
        codes = torch.where(speaking[:, None], frame.codes, 0)
        said = self.decoder.decode(codes, speaking)
        healthy = heard_finite & frame.finite & said.isfinite().all(-1)
        said = torch.where(speaking[:, None], said, 0.0)
        return ModelFrame(said, frame.text, healthy, codes, user_codes)

    def step(self, pcm: Pcm, live: Mask, *, greedy: bool = False) -> HostFrame:
        """As `run`, from the host's memory and back."""
        device = self.lm.weights.device
        heard = torch.from_numpy(np.ascontiguousarray(pcm)).to(device)
        frame = self.run(heard, torch.from_numpy(live).to(device), greedy=greedy)
        return HostFrame(frame.pcm.cpu().numpy(), frame.text.tolist(), frame.healthy.tolist())

    def warm_up(self, chunk: int) -> None:
        """Do what only the first prompt, in pieces of `chunk` positions, would have to wait for."""

    def settle(self) -> None:
        """Wait until everything asked of the device is done; for work between ticks."""
        if self.lm.weights.device.type == "cuda":
            torch.cuda.current_stream(self.lm.weights.device).synchronize()

    def open(self, row: int, sampling: SamplingSpec, seed: int, opening: Opening | None) -> None:
        """Make a row as new and start a session in it, after a prompt or from nothing."""
        self.lm.reset(row)
        self.lm.state.sampling.set(row, sampling, seed)
        self.hearing.reset(row)
        if opening is None:
            self.speaking.reset(row)
            return
        self.lm.open(row, opening.prefix, opening.column)
        self.speaking.restore(row, self._after_silence)

    def _decoded_silence(self) -> Sequence[Tensor]:
        # The reference's first frame of a call is the prompt's last: forced silence. A tick here
        # is a frame ahead of that, so the frame is decoded beforehand and its sound dropped.
        device = self.lm.weights.device
        codes = torch.tensor(self.spec.silence_codes, device=device).repeat(self.rows, 1)
        row = torch.arange(self.rows, device=device)
        self.decoder.decode(codes, row == 0)
        saved = self.speaking.save(0)
        self.speaking.reset(0)
        return saved
