"""A whole tick on a device: caller's frames in, agent's frames out, in static buffers."""

from __future__ import annotations

import torch

from rtc_agent.model.cuda.decoder import DecoderGraph
from rtc_agent.model.cuda.encoder import EncoderGraph
from rtc_agent.model.cuda.launch import Launch, next_power_of_two
from rtc_agent.model.cuda.lm import LanguageModelGraph
from rtc_agent.model.cuda.packed import Fields, Packed
from rtc_agent.model.kernels.tokens import finish_kernel
from rtc_agent.model.lm import LmState
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.weights import LmWeights


def inbox_fields(samples: int) -> Fields:
    """What a tick is given, a row."""
    return {"heard": (samples, torch.float32), "live": (1, torch.bool)}


def outbox_fields(samples: int) -> Fields:
    """What a tick gives, a row."""
    return {
        "said": (samples, torch.float32),
        "text": (1, torch.int64),
        "healthy": (1, torch.bool),
    }


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
        samples = spec.mimi.frame_samples
        self.inbox = Packed(inbox_fields(samples), rows, device)
        self.outbox = Packed(outbox_fields(samples), rows, device)
        self.heard = self.inbox["heard"]
        """[rows, 1920]: the caller's frames."""
        self.live = self.inbox["live"][:, 0]
        """[rows]: who takes part."""
        self.said = self.outbox["said"]
        """[rows, 1920]: the agent's frames."""
        self.text = self.lm.text = self.outbox["text"][:, 0]
        """[rows] int64 text id of the frame in `said`."""
        self.healthy = self.outbox["healthy"][:, 0]
        """[rows]: everything computed for the row was finite."""
        self._silence = torch.zeros((), device=device)

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
