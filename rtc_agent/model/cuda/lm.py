"""The language model's tick on a device: columns in, tokens out, all of it launches."""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_agent.model.cuda.draws import Draws
from rtc_agent.model.cuda.launch import Launch, ceil_div, next_power_of_two
from rtc_agent.model.cuda.linear import Linear, launch_gemv
from rtc_agent.model.cuda.temporal import RingAttention, TemporalGraph
from rtc_agent.model.kernels.tokens import advance_kernel, embed_kernel
from rtc_agent.model.layers import Rope
from rtc_agent.model.lm import LmState
from rtc_agent.model.spec import CODEBOOKS, COLUMN_ROWS, LmSpec
from rtc_agent.model.weights import LmWeights


class LanguageModelGraph:
    """Buffers and launches of a tick. Same arithmetic as `LanguageModel.tick`.

    Args:
        state: read and advanced in place.
        user: [rows, 8] int64, the caller's codes; read at every launch.
    """

    def __init__(self, spec: LmSpec, weights: LmWeights, state: LmState, user: Tensor) -> None:
        self._spec, self._weights, self._state, self._user = spec, weights, state, user
        rows = user.shape[0]
        self._rows = rows
        device, dtype = weights.device, weights.dtype
        pairs = spec.head_dim // 2
        self._frequencies = Rope(spec.head_dim, spec.max_period, device).frequencies
        self._cos = torch.empty((rows, pairs), dtype=torch.float32, device=device)
        self._sin = torch.empty_like(self._cos)
        self._h = torch.empty((rows, spec.dim), dtype=dtype, device=device)
        attention = RingAttention(spec, rows, state.position, self._cos, self._sin)
        self._temporal = TemporalGraph(
            spec,
            weights,
            self._h,
            attention,
            state.temporal.keys,
            state.temporal.values,
            state.temporal.scales,
        )
        self._text_linear = None if rows == 1 else Linear(weights.text_linear, rows)
        self.logits = torch.empty((rows, spec.text_card), dtype=dtype, device=device)
        """[rows, text_card] of the text of the frame after the one that the tick completed."""
        self._draws = Draws(
            spec, weights, self._temporal.context, self.logits, state.sampling, state.position
        )
        self._sos = torch.tensor(spec.sos_column, dtype=torch.int64, device=device)
        self._delays = torch.tensor(spec.delays, dtype=torch.int64, device=device)
        self.text = torch.zeros(rows, dtype=torch.int64, device=device)
        """[rows]: text of the frame that the tick completed."""
        self.codes = torch.zeros((rows, CODEBOOKS), dtype=torch.int64, device=device)
        """[rows, 8]: its codes."""
        self.speaking = torch.zeros(rows, dtype=torch.bool, device=device)
        """[rows]: whether there is such a frame."""
        self.finite = self._draws.finite
        """[rows]: 1 where every logit was a number."""

    def launch(self, live: Tensor, how: Launch) -> None:
        """Run the next position of every live row [rows] bool."""
        self.launch_temporal(how)
        self.launch_draws(how)
        self._advance(live, how)

    def launch_temporal(self, how: Launch) -> None:
        """From the columns to the text logits."""
        spec, w, state, rows = self._spec, self._weights, self._state, self._rows
        block = min(1024, next_power_of_two(spec.dim))
        embed_kernel[(rows, ceil_div(spec.dim, block))](
            state.column,
            self._user,
            state.position,
            w.audio_emb,
            w.text_emb,
            self._frequencies,
            self._h,
            self._cos,
            self._sin,
            spec.card,
            spec.text_card,
            spec.dim,
            AUDIO=COLUMN_ROWS - 1,
            CODES=CODEBOOKS,
            PAIRS=spec.head_dim // 2,
            BLOCK=block,
            **how.options(4),
        )
        self._temporal.launch(how)
        if self._text_linear is None:
            launch_gemv(self._temporal.context, w.text_linear, self.logits, how)
        else:
            self._text_linear.launch(self._temporal.context, self.logits, how)

    def launch_draws(self, how: Launch) -> None:
        """From the text logits to the frame's text and codes."""
        self._draws.launch(how)

    def _advance(self, live: Tensor, how: Launch) -> None:
        state = self._state
        advance_kernel[(self._rows,)](
            state.column,
            state.position,
            live,
            self._draws.tokens,
            self._user,
            self._sos,
            self._delays,
            self.text,
            self.codes,
            self.speaking,
            CODES=CODEBOOKS,
            BLOCK=next_power_of_two(COLUMN_ROWS),
            **how.options(1),
        )
