"""The model's parts by our kernels, launch by launch, for whoever needs one of them alone."""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_agent.model.cuda.decoder import DecoderGraph
from rtc_agent.model.cuda.encoder import EncoderGraph
from rtc_agent.model.cuda.launch import Launch
from rtc_agent.model.cuda.lm import LanguageModelGraph
from rtc_agent.model.lm import LanguageModel, LmFrame
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import CODEBOOKS, LmSpec, MimiSpec
from rtc_agent.model.weights import LmWeights


class CudaLanguageModel(LanguageModel):
    """As `LanguageModel`."""

    def __init__(
        self,
        spec: LmSpec,
        weights: LmWeights,
        rows: int,
        kv_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(spec, weights, rows, kv_dtype)
        self._user = torch.zeros((rows, CODEBOOKS), dtype=torch.int64, device=weights.device)
        self._graph = LanguageModelGraph(spec, weights, self.state, self._user)
        self._how = Launch.on(weights.device)

    def tick(self, user: Tensor, live: Tensor, *, greedy: bool = False) -> LmFrame:
        graph = self._graph
        self._user.copy_(user)
        graph.launch(live, self._how)
        return LmFrame(
            graph.text.clone(), graph.codes.clone(), graph.logits.clone(), graph.finite.bool()
        )


class CudaEncoder:
    """As `MimiEncoder`."""

    def __init__(self, spec: MimiSpec, weights: MimiWeights, rows: int) -> None:
        self._graph = EncoderGraph(spec, weights, rows)
        self._how = Launch.on(weights.device)
        self.state = self._graph.state

    def encode(self, pcm: Tensor, live: Tensor) -> tuple[Tensor, Tensor]:
        graph = self._graph
        graph.pcm.copy_(pcm)
        graph.launch(live, self._how)
        return graph.codes.clone(), graph.finite.bool()


class CudaDecoder:
    """As `MimiDecoder`."""

    def __init__(self, spec: MimiSpec, weights: MimiWeights, rows: int) -> None:
        self._codes = torch.zeros((rows, CODEBOOKS), dtype=torch.int64, device=weights.device)
        self._graph = DecoderGraph(spec, weights, rows, self._codes)
        self._how = Launch.on(weights.device)
        self.state = self._graph.state

    def decode(self, codes: Tensor, live: Tensor) -> Tensor:
        self._codes.copy_(codes)
        self._graph.launch(live, self._how)
        return self._graph.pcm.clone()
