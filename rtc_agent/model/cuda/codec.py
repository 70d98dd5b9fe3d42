"""The codec's halves by our kernels, launch by launch, for whoever needs one of them alone."""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_agent.model.cuda.decoder import DecoderGraph
from rtc_agent.model.cuda.encoder import EncoderGraph
from rtc_agent.model.cuda.launch import Launch
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import CODEBOOKS, MimiSpec


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
        codes = torch.zeros((rows, CODEBOOKS), dtype=torch.int64, device=weights.device)
        self._use(DecoderGraph(spec, weights, rows, codes), codes, Launch.on(weights.device))

    @classmethod
    def of(cls, graph: DecoderGraph, codes: Tensor, how: Launch) -> CudaDecoder:
        """A decoder that is there already, by its launches; `codes` are those that it reads."""
        decoder = cls.__new__(cls)
        decoder._use(graph, codes, how)
        return decoder

    def _use(self, graph: DecoderGraph, codes: Tensor, how: Launch) -> None:
        self._graph, self._codes, self._how = graph, codes, how
        self.state = graph.state

    def decode(self, codes: Tensor, live: Tensor) -> Tensor:
        self._codes.copy_(codes)
        self._graph.launch(live, self._how)
        return self._graph.pcm.clone()
