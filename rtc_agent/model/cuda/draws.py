"""From text logits to a frame's text and codes: nine draws with the depformer between them."""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_agent.model.cuda.depformer import DepformerGraph
from rtc_agent.model.cuda.launch import Launch, ceil_div, next_power_of_two
from rtc_agent.model.kernels.tokens import sample_kernel, threshold_kernel
from rtc_agent.model.layers import RMS_EPS
from rtc_agent.model.sampling import TEXT_STREAM, SamplingState
from rtc_agent.model.spec import CODEBOOKS, DEPFORMER_STEPS, LmSpec
from rtc_agent.model.weights import LmWeights

_CHUNK = 2048
"""Text logits that a block of sampling takes."""


class Draws:
    """Buffers and launches.

    Args:
        context: [rows, dim], the temporal transformer's output.
        logits: [rows, text_card]
        position: [rows] int64, the position that is sampled. All are read at every launch.
    """

    def __init__(
        self,
        spec: LmSpec,
        weights: LmWeights,
        context: Tensor,
        logits: Tensor,
        sampling: SamplingState,
        position: Tensor,
    ) -> None:
        self._spec, self._weights = spec, weights
        self._logits, self._sampling, self._position = logits, sampling, position
        rows, text_card = logits.shape
        self._rows = rows
        device = logits.device
        self._depformer = DepformerGraph(spec, weights, rows, context)
        chunks = ceil_div(text_card, min(_CHUNK, next_power_of_two(text_card) // 2))
        self._threshold = torch.zeros(rows, dtype=torch.int64, device=device)
        self._scores = torch.empty((rows, chunks), dtype=torch.float32, device=device)
        self._indices = torch.empty((rows, chunks), dtype=torch.int32, device=device)
        self._arrived = torch.zeros(rows, dtype=torch.int32, device=device)
        self.tokens = torch.zeros((rows, 1 + CODEBOOKS), dtype=torch.int64, device=device)
        """[rows, 9]: text, then codes."""
        self.finite = torch.ones(rows, dtype=torch.int32, device=device)
        """[rows]: 1 where every logit was a number."""

    def launch(self, how: Launch, steps: int = DEPFORMER_STEPS) -> None:
        """Draw the text and the first `steps` codes."""
        self._depformer.enter(how)
        self._sample(self._logits, TEXT_STREAM, how)
        self._depformer.launch(
            lambda k: self._sample(self._depformer.logits, TEXT_STREAM + 1 + k, how), how, steps
        )

    def _sample(self, logits: Tensor, stream: int, how: Launch) -> None:
        w, sampling, depformer = self._weights, self._sampling, self._depformer
        step = stream - TEXT_STREAM
        n = logits.shape[1]
        d = self._spec.depformer_dim
        more = step < CODEBOOKS
        kind = min(step, 1)
        bits = 16 if logits.dtype == torch.bfloat16 else 32
        chunk = next_power_of_two(n) if step else min(_CHUNK, next_power_of_two(n) // 2)
        chunks = ceil_div(n, chunk)
        if chunks > 1:
            threshold_kernel[(self._rows,)](
                logits,
                sampling.top_k,
                self._threshold,
                self.finite,
                n,
                KIND=kind,
                NP=next_power_of_two(n),
                BITS=bits,
                **how.options(32),
            )
        table = w.dep_text_emb if step == 0 else w.dep_audio_emb[min(step, CODEBOOKS - 1) - 1]
        sample_kernel[(chunks, self._rows)](
            logits,
            sampling.seed,
            sampling.greedy,
            sampling.temperature,
            sampling.top_k,
            self._position,
            self.tokens[:, step],
            self.finite,
            depformer.inputs[:, min(step, CODEBOOKS - 1)],
            table,
            depformer.h,
            w.dep_layers[0].norm1,
            depformer.x,
            self._threshold,
            self._scores,
            self._indices,
            self._arrived,
            n,
            self.tokens.stride(0),
            depformer.inputs.stride(0),
            d,
            RMS_EPS,
            STREAM=stream,
            KIND=kind,
            NEXT=more,
            NORM=more and not depformer.few,
            CHUNKS=chunks,
            CHUNKS_P2=next_power_of_two(chunks),
            NP=chunk,
            BITS=bits,
            BLOCK=next_power_of_two(d),
            **how.options(4),
        )
