"""Drawing tokens: greedy, or temperature and top-k, every row by its own settings.

Sampling is the Gumbel trick: the largest of logits / temperature + Gumbel noise is a draw from
their softmax. The noise belongs to (seed, position, codebook, token), so no order among equal
logits, and no way of finding the candidates, shows in what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rtc_agent.engine.stepper import SamplingSpec
from rtc_agent.errors import InvalidRequest
from rtc_agent.model.philox import philox, uniform

MAX_TOP_K = 512
"""Largest top-k that can be asked for; the reference's largest setting is 250."""
TEXT_STREAM = 0
"""Which draw of a position is the text's; codebook k's is 1 + k."""
AUDIO_STREAMS = range(1, 9)
_LEAST_TEMPERATURE = 1e-4
_SEED_BITS = 64


def check_sampling(spec: SamplingSpec) -> None:
    """Refuse settings that no draw can follow.

    Raises:
        InvalidRequest: a temperature below zero or not finite, or a top-k outside the range.
    """
    draws = spec.draws()
    for name in ("text", "audio"):
        temperature, top_k = getattr(draws, f"{name}_temperature"), getattr(draws, f"{name}_top_k")
        if not 0.0 <= temperature < float("inf"):
            raise InvalidRequest(f"{name}_temperature is {temperature}; it must be 0 or more.")
        if not 1 <= top_k <= MAX_TOP_K:
            raise InvalidRequest(f"{name}_top_k is {top_k}; it must be 1 to {MAX_TOP_K}.")
    if spec.seed is not None and not 0 <= spec.seed < 2**_SEED_BITS:
        raise InvalidRequest(f"seed is {spec.seed}; it must be 0 to 2^{_SEED_BITS} − 1.")


def is_greedy(spec: SamplingSpec) -> bool:
    """Whether no draw of the session needs noise; a temperature of 0 is greedy."""
    return spec.greedy or (spec.text_temperature == 0.0 and spec.audio_temperature == 0.0)


@dataclass(frozen=True, slots=True)
class SamplingState:
    """Every row's settings, as tensors that a captured graph can read."""

    seed: Tensor
    """[rows, 2] int64: low and high 32 bits."""
    greedy: Tensor
    """[rows, 2] bool: text, audio."""
    temperature: Tensor
    """[rows, 2] float32: text, audio."""
    top_k: Tensor
    """[rows, 2] int64: text, audio."""

    @classmethod
    def empty(cls, rows: int, device: torch.device) -> SamplingState:
        return cls(
            seed=torch.zeros((rows, 2), dtype=torch.int64, device=device),
            greedy=torch.ones((rows, 2), dtype=torch.bool, device=device),
            temperature=torch.ones((rows, 2), dtype=torch.float32, device=device),
            top_k=torch.ones((rows, 2), dtype=torch.int64, device=device),
        )

    def set(self, row: int, spec: SamplingSpec, seed: int) -> None:
        """Give a row its session's settings."""
        draws = spec.draws()
        temperatures = (draws.text_temperature, draws.audio_temperature)

        def put(target: Tensor, values: Sequence[float]) -> None:
            target[row] = torch.tensor(values, dtype=target.dtype, device=target.device)

        put(self.seed, (seed & 0xFFFFFFFF, seed >> 32))
        put(self.greedy, [spec.greedy or t == 0.0 for t in temperatures])
        put(self.temperature, [max(t, _LEAST_TEMPERATURE) for t in temperatures])
        put(self.top_k, (draws.text_top_k, draws.audio_top_k))

    def copy(self, other: SamplingState) -> None:
        """Take the settings of as many other rows."""
        self.seed.copy_(other.seed)
        self.greedy.copy_(other.greedy)
        self.temperature.copy_(other.temperature)
        self.top_k.copy_(other.top_k)

    def narrow(self, row: int) -> SamplingState:
        """The settings of one row, as a batch of one."""
        rows = slice(row, row + 1)
        return SamplingState(
            self.seed[rows], self.greedy[rows], self.temperature[rows], self.top_k[rows]
        )


def gumbel_noise(seed: Tensor, position: Tensor, streams: Sequence[int], card: int) -> Tensor:
    """The noise of draws of one tick.

    Args:
        seed: [rows, 2] as in `SamplingState`.
        position: [rows] int64, the position whose output is sampled.
        streams: which draws of the position.
        card: tokens there are to choose from.

    Returns:
        float32 [rows, len(streams), card]
    """
    device = seed.device
    token = torch.arange(card, device=device)
    stream = torch.tensor(streams, device=device)[:, None]
    place = position[:, None, None]
    words = philox(
        (token, stream, place & 0xFFFFFFFF, place >> 32),
        (seed[:, 0, None, None], seed[:, 1, None, None]),
    )
    return -torch.log(-torch.log(uniform(words[..., 0])))


def draw(
    logits: Tensor, greedy: Tensor, temperature: Tensor, top_k: Tensor, noise: Tensor
) -> Tensor:
    """Choose one token a row.

    Args:
        logits: [rows, card], any float dtype; computed on in float32.
        greedy: [rows] bool: take the largest logit.
        temperature: [rows] float32, above zero.
        top_k: [rows] int64, 1 … `MAX_TOP_K`: candidates are so many of the largest logits, and
            whatever equals the least of these.
        noise: [rows, card] Gumbel noise.

    Returns:
        [rows] int64
    """
    wide = logits.float()
    card = wide.shape[-1]
    largest = wide.topk(min(MAX_TOP_K, card), dim=-1).values
    least = largest.gather(-1, top_k.clamp(max=card)[:, None] - 1)
    scores = wide / temperature[:, None] + noise
    scores = scores.masked_fill(wide < least, float("-inf"))
    return torch.where(greedy, wide.argmax(-1), scores.argmax(-1))
