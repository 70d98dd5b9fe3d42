"""Banks on a GPU: a session says in its bank what it says in an engine of a bank's size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rtc_agent.engine.banked import BankedStepper
from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.prefix_cache import PrefixCache
from tests.lockstep_model import GREEDY, PROMPTED, SAMPLED, Said, fresh_parts, noise, run_alone

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

CUDA = torch.device("cuda")
FRAMES = 60


@pytest.mark.parametrize("rows", [1, 2])
def test_banks_over_one_models_weights_do_not_show(rows: int) -> None:
    model = fresh_parts(CUDA, torch.bfloat16)
    prefixes = PrefixCache(1 << 24)
    specs = [SAMPLED, GREEDY, PROMPTED, SAMPLED]
    slots = len(specs)
    engine = BankedStepper(
        lambda bank: LockstepStepper(model, bank, prefill_chunk=8, prefixes=prefixes),
        slots,
        slots // rows,
    )
    heard = [noise(seed, FRAMES) for seed in range(slots)]
    said = [Said() for _ in specs]
    for slot, spec in enumerate(specs):
        for _ in engine.open(slot, spec):
            pass
    for frame in range(FRAMES):
        result = engine.step(np.stack([h[frame] for h in heard]), np.ones(slots, np.bool_))
        for slot in range(slots):
            said[slot].pcm.append(result.pcm[slot].copy())
            said[slot].text.append(result.text.get(slot, ""))
    engine.shutdown()
    alone = LockstepStepper(model, rows, prefill_chunk=8)
    for slot, spec in enumerate(specs):
        assert said[slot] == run_alone(alone, slot % rows, spec, heard[slot]), slot
