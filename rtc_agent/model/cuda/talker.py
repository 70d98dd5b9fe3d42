"""`TalkerModel` on a CUDA device: a tick without the decoder as one captured graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rtc_agent.engine.stepper import Mask, Pcm
from rtc_agent.model.cuda.capture import capture
from rtc_agent.model.cuda.encoder import EncoderGraph
from rtc_agent.model.cuda.frame import inbox_fields
from rtc_agent.model.cuda.language_model import PromptedLanguageModel
from rtc_agent.model.cuda.launch import Launch
from rtc_agent.model.cuda.limits import check_rows
from rtc_agent.model.cuda.lm import LanguageModelGraph
from rtc_agent.model.cuda.packed import Fields, Packed
from rtc_agent.model.lm import LmState
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import CODEBOOKS, ModelSpec
from rtc_agent.model.talker import HostTalk, Talk, TalkerModel
from rtc_agent.model.weights import LmWeights

OUTBOX: Fields = {
    "codes": (CODEBOOKS, torch.int64),
    "text": (1, torch.int64),
    "speaking": (1, torch.bool),
    "healthy": (1, torch.bool),
}
"""What a tick gives, a row."""


class TalkerGraph:
    """Every launch of a tick without the decoder. Same arithmetic as `TalkerModel.talk`."""

    def __init__(
        self, spec: ModelSpec, lm: LmWeights, mimi: MimiWeights, state: LmState, rows: int
    ) -> None:
        device = lm.device
        self.how = Launch.on(device)
        self.encoder = EncoderGraph(spec.mimi, mimi, rows)
        self.lm = LanguageModelGraph(spec.lm, lm, state, self.encoder.codes)
        self.inbox = Packed(inbox_fields(spec.mimi.frame_samples), rows, device)
        self.outbox = Packed(OUTBOX, rows, device)
        self.heard = self.inbox["heard"]
        """[rows, 1920]: the caller's frames."""
        self.live = self.inbox["live"][:, 0]
        """[rows]: who takes part."""
        self.codes = self.lm.codes = self.outbox["codes"]
        """[rows, 8] int64; undefined in rows that are not speaking."""
        self.text = self.lm.text = self.outbox["text"][:, 0]
        """[rows] int64 text id of the same frame."""
        self.speaking = self.lm.speaking = self.outbox["speaking"][:, 0]
        """[rows]: who took part and has a frame."""
        self.healthy = self.outbox["healthy"][:, 0]
        """[rows]: everything computed for the row was finite."""
        self._silence = torch.zeros((), device=device)

    def launch(self) -> None:
        how, live = self.how, self.live
        torch.where(live[:, None], self.heard, self._silence, out=self.encoder.pcm)
        self.encoder.launch(live, how)
        self.lm.launch(live, how)
        torch.logical_and(self.encoder.finite, self.lm.finite, out=self.healthy)


class CudaTalkerModel(TalkerModel):
    """As `TalkerModel`, by our kernels.

    Args:
        kv_dtype: of keys and values; None is the weights', `torch.int8` the other choice.

    Raises:
        CaptureFailed: the tick could not be captured.
    """

    def __init__(
        self,
        spec: ModelSpec,
        lm: LmWeights,
        mimi: MimiWeights,
        rows: int,
        kv_dtype: torch.dtype | None = None,
    ) -> None:
        check_rows(rows)
        self.spec = spec
        self.rows = rows
        self._device = lm.device
        self.lm: PromptedLanguageModel = PromptedLanguageModel(spec.lm, lm, rows, kv_dtype)
        self.frame = TalkerGraph(spec, lm, mimi, self.lm.state, rows)
        self.hearing = self.frame.encoder.state
        self._in = Packed(inbox_fields(spec.mimi.frame_samples), rows, None)
        self._out = Packed(OUTBOX, rows, None)
        self._heard = self._in["heard"].numpy()
        self._live = self._in["live"][:, 0].numpy()
        self._codes = self._out["codes"].numpy()
        self._graph = capture(self._tick, self._device)

    def _tick(self) -> None:
        self.frame.inbox.bytes.copy_(self._in.bytes, non_blocking=True)
        self.frame.launch()
        self._out.bytes.copy_(self.frame.outbox.bytes, non_blocking=True)

    def talk_step(self, pcm: Pcm, live: Mask, *, greedy: bool = False) -> HostTalk:
        """As `TalkerModel.talk_step`; what it returns holds until the next."""
        np.copyto(self._heard, pcm)
        np.copyto(self._live, live)
        self._graph.replay()
        self.settle()
        return HostTalk(
            self._codes,
            self._out["speaking"][:, 0].tolist(),
            self._out["text"][:, 0].tolist(),
            self._out["healthy"][:, 0].tolist(),
        )

    def talk(self, pcm: Tensor, live: Tensor, *, greedy: bool = False) -> Talk:
        """As `TalkerModel.talk`, launch by launch instead of by the graph."""
        frame = self.frame
        frame.heard.copy_(pcm)
        frame.live.copy_(live)
        with torch.cuda.device(self._device):
            frame.launch()
        return Talk(
            torch.where(frame.speaking[:, None], frame.codes, 0),
            frame.speaking.clone(),
            frame.text.clone(),
            frame.healthy.clone(),
            frame.encoder.codes.clone(),
        )

    def warm_up(self, chunk: int) -> None:
        self.lm.warm_up(chunk)
        self.settle()
