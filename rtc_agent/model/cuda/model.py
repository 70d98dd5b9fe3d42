"""`FrameModel` on a CUDA device: a tick is one captured graph, with its copies in and out."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rtc_agent.engine.stepper import Mask, Pcm
from rtc_agent.model.code2wav import decoded_silence
from rtc_agent.model.cuda.capture import capture
from rtc_agent.model.cuda.codec import CudaDecoder
from rtc_agent.model.cuda.frame import FrameGraph, inbox_fields, outbox_fields
from rtc_agent.model.cuda.language_model import PromptedLanguageModel
from rtc_agent.model.cuda.limits import check_rows
from rtc_agent.model.cuda.packed import Packed
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
        samples = spec.mimi.frame_samples
        self._in = Packed(inbox_fields(samples), rows, None)
        self._out = Packed(outbox_fields(samples), rows, None)
        self._heard = self._in["heard"].numpy()
        self._live = self._in["live"][:, 0].numpy()
        self._said = self._out["said"].numpy()
        self._graph = capture(self._tick, self._device)
        with torch.cuda.device(self._device):
            decoder = CudaDecoder.of(self.frame.decoder, self.frame.lm.codes, self.frame.how)
            self._after_silence = decoded_silence(
                spec, decoder.decode, self.speaking, rows, self._device
            )

    def _tick(self) -> None:
        self.frame.inbox.bytes.copy_(self._in.bytes, non_blocking=True)
        self.frame.launch()
        self._out.bytes.copy_(self.frame.outbox.bytes, non_blocking=True)

    def step(self, pcm: Pcm, live: Mask, *, greedy: bool = False) -> HostFrame:
        """As `FrameModel.step`; what it returns holds until the next. Whether all rows are greedy
        makes no odds to the kernels."""
        np.copyto(self._heard, pcm)
        np.copyto(self._live, live)
        self._graph.replay()
        self.settle()
        return HostFrame(
            self._said,
            self._out["text"][:, 0].tolist(),
            self._out["healthy"][:, 0].tolist(),
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
