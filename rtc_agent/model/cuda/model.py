"""`FrameModel` on a CUDA device: a tick is one captured graph, with its copies in and out."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rtc_agent.engine.stepper import Mask, Pcm
from rtc_agent.model.code2wav import decoded_silence
from rtc_agent.model.cuda.codec import CudaDecoder
from rtc_agent.model.cuda.frame import FrameGraph
from rtc_agent.model.cuda.language_model import PromptedLanguageModel
from rtc_agent.model.cuda.limits import check_rows
from rtc_agent.model.cuda.tick import CapturedTick
from rtc_agent.model.frame_model import FrameModel, HostFrame, ModelFrame
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.weights import LmWeights


class CudaFrameModel(FrameModel):
    """As `FrameModel`, by our kernels.

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
        self.frame = FrameGraph(spec, lm, mimi, self.lm.state, rows)
        self.hearing = self.frame.encoder.state
        self.speaking = self.frame.decoder.state
        self._tick = CapturedTick(self.frame, self._device)
        self._heard = self._tick.given("heard")
        self._live = self._tick.given("live")[:, 0]
        self._said = self._tick.made["said"].numpy()
        with torch.cuda.device(self._device):
            decoder = CudaDecoder.of(self.frame.decoder, self.frame.lm.codes, self.frame.how)
            self._after_silence = decoded_silence(
                spec, decoder.decode, self.speaking, rows, self._device
            )

    def step(self, pcm: Pcm, live: Mask, *, greedy: bool = False) -> HostFrame:
        """As `FrameModel.step`; what it returns holds until the next. Whether all rows are greedy
        makes no odds to the kernels."""
        np.copyto(self._heard, pcm)
        np.copyto(self._live, live)
        self._tick.run()
        made = self._tick.made
        return HostFrame(
            self._said,
            made["text"][:, 0].tolist(),
            made["healthy"][:, 0].tolist(),
        )

    def run(self, pcm: Tensor, live: Tensor, *, greedy: bool = False) -> ModelFrame:
        """As `FrameModel.run`, launch by launch instead of by the graph."""
        frame = self.frame
        frame.heard.copy_(pcm)
        frame.live.copy_(live)
        with torch.cuda.device(self._device):
            frame.launch()
        codes = torch.where(frame.lm.speaking[:, None], frame.lm.codes, 0)
        return ModelFrame(
            frame.said.clone(),
            frame.text.clone(),
            frame.healthy.clone(),
            codes,
            frame.encoder.codes.clone(),
        )

    def warm_up(self, chunk: int) -> None:
        self.lm.warm_up(chunk)
        self.settle()
