"""Code2wav: the agent's sound from its codes, for a fixed number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rtc_agent.engine.stepper import Mask, Pcm
from rtc_agent.model.mimi import MimiDecoder
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.talker import Codes, RowState


@dataclass(frozen=True, slots=True)
class HostSound:
    """One frame of every row, in the host's memory; good until the next."""

    pcm: Pcm
    """[rows, 1920]; rows that sat out are undefined."""
    finite: list[bool]


class Code2WavModel:
    """The codec's decoder and its state for `rows` sessions."""

    def __init__(self, spec: ModelSpec, mimi: MimiWeights, rows: int) -> None:
        self.rows = rows
        self._device = mimi.device
        self.decoder = MimiDecoder(spec.mimi, mimi, rows)
        self.speaking: RowState = self.decoder.state
        self._after_silence = decoded_silence(
            spec, self.decoder.decode, self.speaking, rows, mimi.device
        )

    def decode(self, codes: Codes, speaking: Mask) -> HostSound:
        """Decode the next frame of every row that speaks.

        Args:
            codes: [rows, 8], zeros in rows that do not.
            speaking: [rows]; other rows keep their state.
        """
        given = torch.from_numpy(codes).to(self._device)
        said = self.decoder.decode(given, torch.from_numpy(speaking).to(self._device))
        return HostSound(said.cpu().numpy(), said.isfinite().all(-1).tolist())

    def open(self, row: int, *, after_prompt: bool) -> None:
        """Make a row as it is before a session's first frame."""
        if after_prompt:
            self.speaking.restore(row, self._after_silence)
        else:
            self.speaking.reset(row)


def decoded_silence(
    spec: ModelSpec,
    decode: Callable[[Tensor, Tensor], object],
    state: RowState,
    rows: int,
    device: torch.device,
) -> Sequence[Tensor]:
    """The state of a row that has decoded the end of a prompt; row 0 is as new afterwards.

    The reference's first frame of a call is the prompt's last: forced silence. A tick here is a
    frame ahead of that, so the frame is decoded beforehand and its sound dropped.

    Args:
        decode: takes codes [rows, 8] and live rows [rows].
    """
    codes = torch.tensor(spec.silence_codes, device=device).repeat(rows, 1)
    decode(codes, torch.arange(rows, device=device) == 0)
    saved = state.save(0)
    state.reset(0)
    return saved
