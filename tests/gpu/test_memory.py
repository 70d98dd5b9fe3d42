"""The memory plan against a real card."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

from rtc_agent.engine.lockstep import LockstepParts, LockstepStepper, NoVoices
from rtc_agent.engine.stepper import FRAME_SAMPLES, SessionSpec
from rtc_agent.model.detokenizer import Detokenizer
from rtc_agent.model.memory_plan import free_memory, memory_need
from rtc_agent.model.random_weights import random_lm, random_mimi
from rtc_agent.model.spec import ModelSpec

SESSIONS = 2


@pytest.mark.gpu
def test_released_sizes_take_what_is_planned() -> None:
    device = torch.device("cuda")
    spec = ModelSpec.released()
    need = memory_need(spec, "bfloat16", "cuda")
    # What torch keeps of earlier tests would be taken again without being asked of the device.
    gc.collect()
    torch.cuda.empty_cache()
    free = free_memory(device)
    if free < need.total(SESSIONS):
        pytest.skip(f"{free >> 30} GiB are free")
    parts = LockstepParts(
        spec=spec,
        lm=random_lm(spec.lm, 0, device=device, dtype=torch.bfloat16),
        mimi=random_mimi(spec.mimi, 0, device=device),
        text_encoder=None,
        text_stream=lambda: Detokenizer(()),
        voices=NoVoices(),
        agent="personaplex",
        description="random weights",
    )
    stepper = LockstepStepper(parts, SESSIONS, prefix_bytes=0)
    for slot in range(SESSIONS):
        for _ in stepper.open(slot, SessionSpec()):
            pass
    pcm = np.zeros((SESSIONS, FRAME_SAMPLES), np.float32)
    for _ in range(10):
        stepper.step(pcm, np.ones(SESSIONS, np.bool_))
    taken = free - free_memory(device)
    stepper.shutdown()
    assert need.total(SESSIONS) - need.fixed <= taken <= need.total(SESSIONS)
