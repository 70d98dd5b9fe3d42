"""A whole tick on a device: caller's frames in, agent's frames out, in static buffers."""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_agent.model.cuda.decoder import DecoderGraph
from rtc_agent.model.cuda.encoder import EncoderGraph
from rtc_agent.model.cuda.launch import Launch, next_power_of_two
from rtc_agent.model.cuda.lm import LanguageModelGraph
from rtc_agent.model.kernels.tokens import finish_kernel
from rtc_agent.model.lm import LmState
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.weights import LmWeights


class FrameGraph:
    """Every launch of a tick. Same arithmetic as `FrameModel.run`."""

    def __init__(
        self, spec: ModelSpec, lm: LmWeights, mimi: MimiWeights, state: LmState, rows: int
    ) -> None:
        device = lm.device
        self.rows = rows
        self.how = Launch.on(device)
        self.encoder = EncoderGraph(spec.mimi, mimi, rows)
        self.lm = LanguageModelGraph(spec.lm, lm, state, self.encoder.codes)
        self.decoder = DecoderGraph(spec.mimi, mimi, rows, self.lm.codes)
        self.heard = torch.zeros((rows, spec.mimi.frame_samples), device=device)
        """[rows, 1920]: the caller's frames."""
        self._silence = torch.zeros((), device=device)
        self.live = torch.zeros(rows, dtype=torch.bool, device=device)
        """[rows]: who takes part."""
        self.said = torch.zeros_like(self.heard)
        """[rows, 1920]: the agent's frames."""
        self.healthy = torch.ones(rows, dtype=torch.bool, device=device)
        """[rows]: everything computed for the row was finite."""

    def launch(self) -> None:
        how, live = self.how, self.live
        torch.where(live[:, None], self.heard, self._silence, out=self.encoder.pcm)
        self.encoder.launch(live, how)
        self.lm.launch(live, how)
        self.decoder.launch(self.lm.speaking, how)
        samples = self.said.shape[1]
        finish_kernel[(self.rows,)](
            self.decoder.pcm,
            self.lm.speaking,
            self.encoder.finite,
            self.lm.finite,
            self.said,
            self.healthy,
            samples,
            BLOCK=next_power_of_two(samples),
            **how.options(4),
        )

    @property
    def text(self) -> Tensor:
        """[rows] int64 text id of the frame in `said`."""
        return self.lm.text
