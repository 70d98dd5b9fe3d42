"""Batches are the same whoever makes them."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch

from rtc_agent.training.ahead import BatchesAhead
from tests.training.small_data import SmallSource, WordPieces

CPU = torch.device("cpu")


def test_processes_make_what_would_be_made_here() -> None:
    source = SmallSource(WordPieces())
    here = BatchesAhead(source, 2, seed=7, first=3, workers=0)
    there = BatchesAhead(source, 2, seed=7, first=3, workers=1)
    later = BatchesAhead(source, 2, seed=7, first=5, workers=0)
    try:
        batches = [(here.next(CPU), there.next(CPU)) for _ in range(3)]
    finally:
        there.close()
    for one, other in (*batches, (batches[2][0], later.next(CPU))):
        for field in fields(one):
            assert torch.equal(getattr(one, field.name), getattr(other, field.name)), field.name
    assert not torch.equal(batches[0][0].caller, batches[1][0].caller)
    plain = source.batch(2, np.random.default_rng((7, 3)))
    assert (plain.caller - batches[0][0].caller).abs().max() < 1e-4
