"""Learning the codec's codebooks: k-means first, then moving averages, and renewal of dead codes.

Residual vector quantisation as in SoundStream (Zeghidour et al. 2021, section III-C): vectors are
no parameters but means of what is assigned to them, and gradients pass the quantiser straight
through.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.training.keyed import KeyedTensors

DECAY = 0.99
"""Of the moving averages, a step."""
_KMEANS_ROUNDS = 12
_DEAD = 0.1
"""A code that is used less than this part of its share is renewed."""
_LEAST_USAGE = 1e-5
"""As `assemble_mimi` has it."""


@dataclass(frozen=True, slots=True)
class Quantised:
    """What one half of the split quantiser made of a batch."""

    output: Tensor
    """[rows, frames, d], projected back; gradients pass to the latents."""
    commitment: Tensor
    """Mean squared distance of the residuals to their codes, [] float."""
    codes: Tensor
    """[rows, frames, layers] int64"""


class TrainedQuantizer:
    """One half, `rvq_first` or `rvq_rest`, over the tensors that a checkpoint will hold.

    Args:
        layers: codebooks of this half.
        chance: chooses the vectors that dead codes are renewed with; on the tensors' device.
    """

    def __init__(
        self, tensors: KeyedTensors, half: str, layers: int, chance: torch.Generator
    ) -> None:
        self._tensors = tensors
        self._prefix = f"quantizer.{half}."
        self._layers = layers
        self._chance = chance

    def bypass(self, latents: Tensor) -> Tensor:
        """Both projections with nothing in between."""
        return F.linear(self._project(latents), self._matrix("output_proj"))

    def __call__(self, latents: Tensor, *, learn: bool = True) -> Quantised:
        """Quantise [rows, frames, d].

        Args:
            learn: whether the codebooks move.
        """
        projected = self._project(latents)
        residual = projected.float()
        total = torch.zeros_like(residual)
        commitment = residual.new_zeros(())
        codes = []
        for i in range(self._layers):
            book = self._book(i)
            chosen = nearest(residual.detach(), book)
            vectors = F.embedding(chosen, book)
            commitment = commitment + F.mse_loss(residual, vectors)
            if learn:
                self._update(i, residual.detach().flatten(0, -2), chosen.flatten())
            total = total + vectors
            residual = residual - vectors
            codes.append(chosen)
        straight = projected + (total - projected).detach()
        output = F.linear(straight, self._matrix("output_proj"))
        return Quantised(output, commitment / self._layers, torch.stack(codes, -1))

    @torch.no_grad()
    def initialise(self, latents: Tensor, a_step: int) -> None:
        """Place the codebooks by k-means over [n, d] latents, each on the residual of the last.

        Args:
            a_step: vectors that a step of training has: what codes are worth weighs as much as if
                averages had run for long, or they could not follow the latents for hundreds of
                steps.
        """
        residual = self._project(latents).float()
        for i in range(self._layers):
            book = self._kmeans(residual, len(self._book(i)))
            usage, total = self._averages(i)
            counts = torch.full_like(usage, a_step / len(book))
            usage.copy_(counts)
            total.copy_(book * counts[:, None])
            residual = residual - F.embedding(nearest(residual, book), book)

    def perplexities(self) -> list[float]:
        """Of each codebook's running usage: how many codes are in use, as it were."""
        out = []
        for i in range(self._layers):
            usage, _ = self._averages(i)
            share = usage / usage.sum().clamp(min=_LEAST_USAGE)
            out.append(float(torch.special.entr(share).sum().exp()))
        return out

    def _project(self, latents: Tensor) -> Tensor:
        return F.linear(latents, self._matrix("input_proj"))

    def _matrix(self, name: str) -> Tensor:
        return self._tensors.fetch(f"{self._prefix}{name}.weight").squeeze(-1)

    def _averages(self, i: int) -> tuple[Tensor, Tensor]:
        key = f"{self._prefix}vq.layers.{i}._codebook."
        return self._tensors.fetch(key + "cluster_usage"), self._tensors.fetch(
            key + "embedding_sum"
        )

    def _book(self, i: int) -> Tensor:
        usage, total = self._averages(i)
        return total / usage.clamp(min=_LEAST_USAGE)[:, None]

    @torch.no_grad()
    def _update(self, i: int, vectors: Tensor, chosen: Tensor) -> None:
        usage, total = self._averages(i)
        counts, sums = _assigned(vectors, chosen, len(usage))
        usage.mul_(DECAY).add_(counts, alpha=1 - DECAY)
        total.mul_(DECAY).add_(sums, alpha=1 - DECAY)
        share = usage.mean()
        dead = usage < _DEAD * share
        # Without asking the device how many are dead: every code is offered a new vector.
        fresh = vectors[self._draw(len(vectors), len(usage))]
        total.copy_(torch.where(dead[:, None], fresh * share, total))
        usage.copy_(torch.where(dead, share, usage))

    def _kmeans(self, vectors: Tensor, bins: int) -> Tensor:
        book = vectors[self._draw(len(vectors), bins)]
        for _ in range(_KMEANS_ROUNDS):
            counts, sums = _assigned(vectors, nearest(vectors, book), bins)
            fresh = vectors[self._draw(len(vectors), bins)]
            means = sums / counts.clamp(min=1)[:, None]
            book = torch.where(counts[:, None] > 0, means, fresh)
        return book

    def _draw(self, n: int, wanted: int) -> Tensor:
        """Indices of `wanted` out of n, no one twice while there are enough."""
        device = self._chance.device
        orders = [
            torch.randperm(n, generator=self._chance, device=device) for _ in range(-(-wanted // n))
        ]
        return torch.cat(orders)[:wanted]


def nearest(vectors: Tensor, book: Tensor) -> Tensor:
    """Indices [...] of the vectors in `book` [bins, d] nearest to [..., d], by Euclid."""
    return (F.linear(vectors, book) - book.square().sum(-1) / 2).argmax(-1)


def _assigned(vectors: Tensor, chosen: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """How many vectors each code has, [bins], and their sums [bins, d].

    A matrix product rather than scattered additions, whose order, and so whose bits, a GPU leaves
    open.
    """
    mine = F.one_hot(chosen, bins).to(vectors.dtype)
    return mine.sum(0), mine.t() @ vectors
