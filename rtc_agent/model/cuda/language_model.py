"""`LanguageModel` on a CUDA device: prompts, the draw after a prompt, and the tick by itself."""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_agent.model.cuda.capture import capture
from rtc_agent.model.cuda.draws import Draws
from rtc_agent.model.cuda.launch import Launch
from rtc_agent.model.cuda.linear import launch_gemv
from rtc_agent.model.cuda.lm import LanguageModelGraph
from rtc_agent.model.cuda.prefill import CudaTemporalTransformer
from rtc_agent.model.lm import LanguageModel, LmFrame
from rtc_agent.model.sampling import SamplingState
from rtc_agent.model.spec import CODEBOOKS, LmSpec
from rtc_agent.model.weights import LmWeights


class OpeningDraw:
    """Text and first code of the frame that follows a prompt: one row, one captured graph."""

    def __init__(self, spec: LmSpec, weights: LmWeights) -> None:
        device = weights.device
        self._weights = weights
        self._how = Launch.on(device)
        self._context = torch.zeros((1, spec.dim), dtype=weights.dtype, device=device)
        self.logits = torch.empty((1, spec.text_card), dtype=weights.dtype, device=device)
        self._position = torch.zeros(1, dtype=torch.int64, device=device)
        self._sampling = SamplingState.empty(1, device)
        self._draws = Draws(
            spec, weights, self._context, self.logits, self._sampling, self._position
        )
        self._graph = capture(self._launch, device)

    def _launch(self) -> None:
        launch_gemv(self._context, self._weights.text_linear, self.logits, self._how)
        self._draws.launch(self._how, steps=1)

    def run(self, context: Tensor, position: Tensor, sampling: SamplingState) -> Tensor:
        """[2] text and code that follow `context` [dim] at `position` [1]."""
        self._context[0] = context
        self._position.copy_(position)
        self._sampling.copy(sampling)
        self._graph.replay()
        return self._draws.tokens[0, :2]


class PromptedLanguageModel(LanguageModel):
    """As `LanguageModel`, its prompts by our kernels; the tick is its owner's."""

    def __init__(
        self,
        spec: LmSpec,
        weights: LmWeights,
        rows: int,
        kv_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(spec, weights, rows, kv_dtype)
        self.temporal = CudaTemporalTransformer(spec, weights)
        self._opening_draw = OpeningDraw(spec, weights)

    def warm_up(self, chunk: int) -> None:
        """Compile what prompts in pieces of `chunk` positions need."""
        prefill = self.temporal.prefill(2 * chunk)
        for piece in self.temporal.embed(self._sos.repeat(2 * chunk, 1)).split(chunk):
            prefill.run(piece)
        prefill.finish()

    def draw_first(self, context: Tensor, position: Tensor, row: int) -> tuple[Tensor, Tensor]:
        draw = self._opening_draw
        tokens = draw.run(context, position, self.state.sampling.narrow(row))
        return tokens, draw.logits.clone()


class CudaLanguageModel(PromptedLanguageModel):
    """As `LanguageModel`, launch by launch."""

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
