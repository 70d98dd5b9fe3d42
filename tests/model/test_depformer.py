"""The depformer: what each step sees, and that steps left out change nothing before them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rtc_agent.model.depformer import Depformer
from tests.golden import golden_lm, golden_spec

torch.set_num_threads(1)

SPEC = golden_spec("lm_a").lm
ROWS = 5


def _logits(window: int, steps: int = 8, codes: Tensor | None = None) -> Tensor:
    """[rows, steps, card] with `codes` [rows, 8] chosen, whatever the logits say."""
    generator = torch.Generator().manual_seed(0)
    context = torch.randn((ROWS, SPEC.dim), generator=generator)
    text = torch.randint(0, SPEC.text_card, (ROWS,), generator=generator)
    chosen = torch.randint(0, SPEC.card, (ROWS, 8), generator=generator)
    seen: list[Tensor] = []

    def pick(codebook: int, logits: Tensor) -> Tensor:
        seen.append(logits)
        return (chosen if codes is None else codes)[:, codebook]

    depformer = Depformer(replace(SPEC, depformer_window=window), golden_lm(), ROWS)
    out = depformer.run(context, text, pick, steps)
    assert torch.equal(out, (chosen if codes is None else codes)[:, :steps])
    return torch.stack(seen, dim=1)


def test_a_ring_of_eight_hides_the_first_step_from_the_last_alone() -> None:
    whole, ring = _logits(window=8), _logits(window=7)
    assert torch.equal(whole[:, :7], ring[:, :7])
    assert not torch.allclose(whole[:, 7], ring[:, 7], atol=1e-3)
    assert torch.equal(whole, _logits(window=15))


def test_fewer_steps_are_the_first_ones() -> None:
    assert torch.equal(_logits(window=8, steps=1), _logits(window=8)[:, :1])


def test_nothing_is_carried_from_frame_to_frame() -> None:
    depformer = Depformer(SPEC, golden_lm(), ROWS)
    context = torch.randn((ROWS, SPEC.dim), generator=torch.Generator().manual_seed(1))
    text = torch.arange(ROWS)

    def greedy(_: int, logits: Tensor) -> Tensor:
        return logits.argmax(-1)

    first = depformer.run(context, text, greedy)
    depformer.run(context * 100, text, greedy)
    assert torch.equal(depformer.run(context, text, greedy), first)
