"""The language model's tick: token columns with their delays around the two transformers.

A column holds, at position p of the temporal transformer, for each row of delay d the token of
frame p − d. Position 0 is all start-of-stream, and position 1 is in every delayed row, whatever was
said or received for them.

Running position p needs the caller's frame p and completes the agent's frame p: its text and
codebook 0 stand in column p already, its codebooks 1–7 come out and go into column p + 1, together
with the text and codebook 0 of frame p + 1. So a tick runs as soon as the caller's frame is
encoded; the reference runs the same position a call later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.model.depformer import Depformer
from rtc_agent.model.sampling import (
    AUDIO_STREAMS,
    TEXT_STREAM,
    SamplingState,
    draw,
    gumbel_noise,
)
from rtc_agent.model.spec import (
    AGENT_ROWS,
    TEXT_ROW,
    USER_ROWS,
    LmSpec,
)
from rtc_agent.model.temporal import Prefix, TemporalState, TemporalTransformer
from rtc_agent.model.weights import LmWeights

_FIRST_USER = USER_ROWS.start


@dataclass(frozen=True, slots=True)
class LmState:
    """What the rows of a batch carry from tick to tick."""

    temporal: TemporalState
    column: Tensor
    """[rows, 17] int64: the next position's column; the user's codebook 0 is still to come."""
    sampling: SamplingState

    @property
    def position(self) -> Tensor:
        """[rows] int64: the position to run next."""
        return self.temporal.position


@dataclass(frozen=True, slots=True)
class LmFrame:
    """The agent's frame that a tick completed."""

    text: Tensor
    """[rows] text id; on position 0 start-of-stream, which is not a frame yet."""
    codes: Tensor
    """[rows, 8] codec codes; meaningless on position 0."""
    text_logits: Tensor
    """[rows, text_card], of the text of the frame after this one."""
    finite: Tensor
    """[rows] bool: every logit was a number."""


class LanguageModel:
    """Temporal transformer, depformer and sampling over a fixed number of rows."""

    def __init__(
        self,
        spec: LmSpec,
        weights: LmWeights,
        rows: int,
        kv_dtype: torch.dtype | None = None,
    ) -> None:
        """
        Args:
            kv_dtype: of keys and values; None is the weights'.
        """
        self.spec = spec
        self.weights = weights
        self.rows = rows
        self.temporal = TemporalTransformer(spec, weights)
        self.depformer = Depformer(spec, weights, rows)
        self._opening = Depformer(spec, weights, 1)
        device = weights.device
        self._sos = torch.tensor(spec.sos_column, device=device)
        self._delayed = torch.tensor(spec.delays, device=device) > 0
        self.state = LmState(
            temporal=TemporalState.empty(spec, rows, device, kv_dtype or weights.dtype),
            column=self._sos.repeat(rows, 1),
            sampling=SamplingState.empty(rows, device),
        )

    def tick(self, user: Tensor, live: Tensor, *, greedy: bool = False) -> LmFrame:
        """Run every live row's next position.

        Args:
            user: [rows, 8] int64, codes of the caller's frame at that position.
            live: [rows] bool; other rows compute but keep their state.
            greedy: whether every live row is known to be, which spares the noise.
        """
        state, w = self.state, self.weights
        position = state.position
        column = state.column.clone()
        column[:, _FIRST_USER] = torch.where(position == 0, self.spec.audio_sos, user[:, 0])
        context = self.temporal.step(self.temporal.embed(column), state.temporal)
        logits = F.linear(context, w.text_linear)
        noise = None if greedy else self._noise(state.sampling, position)
        finite = logits.isfinite().all(-1)
        text = _choose(logits, state.sampling, noise, TEXT_STREAM)

        def pick(codebook: int, code_logits: Tensor) -> Tensor:
            nonlocal finite
            finite = finite & code_logits.isfinite().all(-1)
            return _choose(code_logits, state.sampling, noise, 1 + codebook)

        codes = self.depformer.run(context, text, pick)
        frame = torch.cat((column[:, AGENT_ROWS.start, None], codes[:, 1:]), dim=1)
        coming = torch.cat((text[:, None], codes, user), dim=1)
        lost = (position == 0)[:, None] & self._delayed
        coming = torch.where(lost, self._sos, coming)
        state.column.copy_(torch.where(live[:, None], coming, state.column))
        state.position.add_(live)
        return LmFrame(column[:, TEXT_ROW], frame, logits, finite)

    def reset(self, row: int) -> None:
        """Make a row as new: nothing run, greedy."""
        self.state.temporal.reset(row)
        self.state.column[row] = self._sos

    def open(self, row: int, prefix: Prefix, column: Tensor) -> Tensor:
        """Start a reset row, its sampling already set, after a prompt.

        The last prompt position is sampled here, since it gives the text and codebook 0 of the
        first live frame; the rest of that position was forced.

        Args:
            column: [17] the prompt's tokens at the first live position.

        Returns:
            [1, text_card] the text logits of that position.
        """
        prefix.copy_to(self.state.temporal, row)
        position = self.state.position[row : row + 1] - 1
        tokens, logits = self.draw_first(prefix.last, position, row)
        opening = column.to(self._sos.device).clone()
        opening[TEXT_ROW], opening[AGENT_ROWS.start] = tokens.unbind()
        self.state.column[row] = opening
        return logits

    def draw_first(self, context: Tensor, position: Tensor, row: int) -> tuple[Tensor, Tensor]:
        """Draw a text and a codebook 0 with a row's settings.

        Args:
            context: [dim] output of the temporal transformer at `position` [1].

        Returns:
            Both tokens [2], and the text logits [1, text_card].
        """
        sampling = self.state.sampling.narrow(row)
        logits = F.linear(context[None], self.weights.text_linear)
        noise = self._noise(sampling, position)
        text = _choose(logits, sampling, noise, TEXT_STREAM)
        codes = self._opening.run(
            context[None], text, lambda k, code: _choose(code, sampling, noise, 1 + k), steps=1
        )
        return torch.cat((text, codes[:, 0])), logits

    def _noise(self, sampling: SamplingState, position: Tensor) -> tuple[Tensor, ...]:
        """[rows, card] of every draw of a position."""
        text, audio = (
            gumbel_noise(sampling.seed, position, streams, card)
            for streams, card in (
                ((TEXT_STREAM,), self.spec.text_card),
                (AUDIO_STREAMS, self.spec.card),
            )
        )
        return (*text.unbind(1), *audio.unbind(1))


def _choose(
    logits: Tensor, sampling: SamplingState, noise: Sequence[Tensor] | None, stream: int
) -> Tensor:
    if noise is None:
        return logits.float().argmax(-1)
    kind = 0 if stream == TEXT_STREAM else 1
    return draw(
        logits,
        sampling.greedy[:, kind],
        sampling.temperature[:, kind],
        sampling.top_k[:, kind],
        noise[stream],
    )
