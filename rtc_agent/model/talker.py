"""The talker: a tick without the agent's sound. Caller's frames in, text and codec codes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rtc_agent.engine.stepper import Mask, Pcm, SamplingSpec
from rtc_agent.model.lm import LanguageModel
from rtc_agent.model.mimi import MimiEncoder
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.opening import Opening
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.weights import LmWeights

Codes = npt.NDArray[np.int64]
"""[rows, 8] codec codes of one frame."""


@dataclass(frozen=True, slots=True)
class Talk:
    """What a tick gave each row, all of it on the model's device."""

    codes: Tensor
    """[rows, 8] int64 of the agent's frame; zeros in rows that are not speaking."""
    speaking: Tensor
    """[rows] bool: the row took part and has a frame."""
    text: Tensor
    """[rows] int64 text id of the same frame; start-of-stream where there is none yet."""
    healthy: Tensor
    """[rows] bool: everything computed for the row was finite."""
    user_codes: Tensor
    """[rows, 8] int64 what the caller's frame was encoded to."""


@dataclass(frozen=True, slots=True)
class HostTalk:
    """What a tick gave each row, in the host's memory; good until the next tick."""

    codes: Codes
    speaking: list[bool]
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


class TalkerModel:
    """Codec encoder, language model and their state for `rows` sessions."""

    def __init__(self, spec: ModelSpec, lm: LmWeights, mimi: MimiWeights, rows: int) -> None:
        self.spec = spec
        self.rows = rows
        self.lm = LanguageModel(spec.lm, lm, rows)
        self.encoder = MimiEncoder(spec.mimi, mimi, rows)
        self.hearing: RowState = self.encoder.state

    def talk(self, pcm: Tensor, live: Tensor, *, greedy: bool = False) -> Talk:
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
        return Talk(codes, speaking, frame.text, heard_finite & frame.finite, user_codes)

    def talk_step(self, pcm: Pcm, live: Mask, *, greedy: bool = False) -> HostTalk:
        """As `talk`, from the host's memory and back."""
        device = self.lm.weights.device
        heard = torch.from_numpy(np.ascontiguousarray(pcm)).to(device)
        talk = self.talk(heard, torch.from_numpy(live).to(device), greedy=greedy)
        return HostTalk(
            talk.codes.cpu().numpy(),
            talk.speaking.tolist(),
            talk.text.tolist(),
            talk.healthy.tolist(),
        )

    def positions(self) -> tuple[Tensor, ...]:
        """[rows] int64 of every part: what says how full its window is."""
        return (self.lm.state.position, self.hearing.position)

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
        if opening is not None:
            self.lm.open(row, opening.prefix, opening.column)
