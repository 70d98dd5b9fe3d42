"""`TalkerModel` on a CUDA device: a tick without the decoder as one captured graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rtc_agent.engine.stepper import Mask, Pcm
from rtc_agent.model.cuda.language_model import PromptedLanguageModel
from rtc_agent.model.cuda.limits import check_rows
from rtc_agent.model.cuda.listening import ListeningGraph
from rtc_agent.model.cuda.packed import Fields
from rtc_agent.model.cuda.tick import CapturedTick
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


class TalkerGraph(ListeningGraph):
    """Every launch of a tick without the decoder. Same arithmetic as `TalkerModel.talk`."""

    def __init__(
        self, spec: ModelSpec, lm: LmWeights, mimi: MimiWeights, state: LmState, rows: int
    ) -> None:
        super().__init__(spec, lm, mimi, state, rows, OUTBOX)
        self.codes = self.lm.codes = self.outbox["codes"]
        """[rows, 8] int64; undefined in rows that are not speaking."""
        self.speaking = self.lm.speaking = self.outbox["speaking"][:, 0]
        """[rows]: who took part and has a frame."""

    def launch(self) -> None:
        self.listen()
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
        self._tick = CapturedTick(self.frame, self._device)
        self._heard = self._tick.given("heard")
        self._live = self._tick.given("live")[:, 0]
        self._codes = self._tick.made["codes"].numpy()

    def talk_step(self, pcm: Pcm, live: Mask, *, greedy: bool = False) -> HostTalk:
        """As `TalkerModel.talk_step`; what it returns holds until the next."""
        np.copyto(self._heard, pcm)
        np.copyto(self._live, live)
        self._tick.run()
        made = self._tick.made
        return HostTalk(
            self._codes,
            made["speaking"][:, 0].tolist(),
            made["text"][:, 0].tolist(),
            made["healthy"][:, 0].tolist(),
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
