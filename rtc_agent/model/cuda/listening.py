"""What every graph of a tick begins with: caller's frames in, tokens out, in static buffers."""

from __future__ import annotations

import torch

from rtc_agent.model.cuda.encoder import EncoderGraph
from rtc_agent.model.cuda.launch import Launch
from rtc_agent.model.cuda.lm import LanguageModelGraph
from rtc_agent.model.cuda.packed import Fields, Packed
from rtc_agent.model.lm import LmState
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.weights import LmWeights


def inbox_fields(samples: int) -> Fields:
    """What a tick is given, a row."""
    return {"heard": (samples, torch.float32), "live": (1, torch.bool)}


class ListeningGraph:
    """Encoder and language model.

    Args:
        outbox: what a tick gives, a row; `text` and `healthy` are among it.
    """

    def __init__(
        self,
        spec: ModelSpec,
        lm: LmWeights,
        mimi: MimiWeights,
        state: LmState,
        rows: int,
        outbox: Fields,
    ) -> None:
        device = lm.device
        self.rows = rows
        self.how = Launch.on(device)
        self.encoder = EncoderGraph(spec.mimi, mimi, rows)
        self.lm = LanguageModelGraph(spec.lm, lm, state, self.encoder.codes)
        self.inbox = Packed(inbox_fields(spec.mimi.frame_samples), rows, device)
        self.outbox = Packed(outbox, rows, device)
        self.heard = self.inbox["heard"]
        """[rows, 1920]: the caller's frames."""
        self.live = self.inbox["live"][:, 0]
        """[rows]: who takes part."""
        self.text = self.lm.text = self.outbox["text"][:, 0]
        """[rows] int64 text id of the agent's frame."""
        self.healthy = self.outbox["healthy"][:, 0]
        """[rows]: everything computed for the row was finite."""
        self._silence = torch.zeros((), device=device)

    def listen(self) -> None:
        """Launch the encoder and the language model."""
        torch.where(self.live[:, None], self.heard, self._silence, out=self.encoder.pcm)
        self.encoder.launch(self.live, self.how)
        self.lm.launch(self.live, self.how)
