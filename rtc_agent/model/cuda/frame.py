"""A whole tick on a device: caller's frames in, agent's frames out, in static buffers."""

from __future__ import annotations

import torch

from rtc_agent.model.cuda.decoder import DecoderGraph
from rtc_agent.model.cuda.launch import next_power_of_two
from rtc_agent.model.cuda.listening import ListeningGraph
from rtc_agent.model.cuda.packed import Fields
from rtc_agent.model.kernels.tokens import finish_kernel
from rtc_agent.model.lm import LmState
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.weights import LmWeights


def outbox_fields(samples: int) -> Fields:
    """What a tick gives, a row."""
    return {
        "said": (samples, torch.float32),
        "text": (1, torch.int64),
        "healthy": (1, torch.bool),
    }


class FrameGraph(ListeningGraph):
    """Every launch of a tick. Same arithmetic as `FrameModel.run`."""

    def __init__(
        self, spec: ModelSpec, lm: LmWeights, mimi: MimiWeights, state: LmState, rows: int
    ) -> None:
        super().__init__(spec, lm, mimi, state, rows, outbox_fields(spec.mimi.frame_samples))
        self.decoder = DecoderGraph(spec.mimi, mimi, rows, self.lm.codes)
        self.said = self.outbox["said"]
        """[rows, 1920]: the agent's frames."""

    def launch(self) -> None:
        self.listen()
        self.decoder.launch(self.lm.speaking, self.how)
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
            **self.how.options(4),
        )
