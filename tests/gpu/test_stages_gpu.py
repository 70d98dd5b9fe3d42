"""Talker and code2wav apart on GPUs: each stage's graph, and the sound of the single one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.stages.code2wav import MakeBank
from rtc_agent.engine.stages.link import Code2WavLink
from rtc_agent.engine.stages.memory import Layout
from rtc_agent.engine.stages.settings import StageSettings
from rtc_agent.engine.stages.stepper import StagedStepper
from rtc_agent.engine.stages.worker import ThreadWorker
from rtc_agent.model.backend import TORCH, Backend, backend_for
from rtc_agent.model.precision import use_exact_float32
from tests.lockstep_model import GREEDY, PROMPTED, SAMPLED, SPEC, fresh_parts, noise, run_alone

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

TALKER = torch.device("cuda:0")
FRAMES = 60
SLOTS = 2


@pytest.fixture(autouse=True)
def exact_float32() -> None:
    use_exact_float32()


def _moved(value: object, device: torch.device) -> object:
    """The same weights on another device: each device draws its own random numbers."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, tuple):
        return tuple(_moved(item, device) for item in value)
    names = getattr(value, "__dataclass_fields__", {})
    return replace(value, **{n: _moved(getattr(value, n), device) for n in names})  # type: ignore[type-var]


@pytest.fixture(params=["cuda:0", "cuda:1"])
def second(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    device = torch.device(request.param)
    if device.index >= torch.cuda.device_count():
        pytest.skip(f"there are {torch.cuda.device_count()} GPUs here")
    yield device


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("chunk", [1, 5])
def test_the_sound_is_that_of_the_single_stage(
    second: torch.device, kernels: bool, chunk: int
) -> None:
    made = fresh_parts(TALKER, torch.bfloat16)
    backend: Backend = backend_for(TALKER) if kernels else TORCH
    whole = LockstepStepper(made, SLOTS, prefill_chunk=8, backend=backend)
    mimi = _moved(made.mimi.decoder_half(), second)
    stages = StageSettings(codec_chunk_frames=chunk)
    layout = Layout.of(SLOTS, stages)

    def load(rows: int) -> MakeBank:
        return lambda: backend.code2wav(SPEC, mimi, rows)  # type: ignore[arg-type]

    def connect(rows: int) -> Code2WavLink:
        return Code2WavLink(
            layout,
            lambda fd: ThreadWorker(partial(load, rows), SLOTS // rows, fd, layout),
            stages.codec_left_context_frames,
            hung_s=60,
        )

    heard = replace(made, mimi=made.mimi.encoder_half())
    apart = StagedStepper(heard, SLOTS, stages, connect, prefill_chunk=8, backend=backend)
    try:
        apart.rehearse()
        for spec in (PROMPTED, SAMPLED, GREEDY):
            expected = run_alone(whole, 1, spec, noise(1, FRAMES))
            said = run_alone(apart, 1, spec, noise(1, FRAMES))
            held = chunk - 1
            assert np.array_equal(said.pcm[0], expected.pcm[0])
            for tick in range(1 + held, FRAMES):
                assert np.array_equal(said.pcm[tick], expected.pcm[tick - held]), tick
                assert said.text[tick] == expected.text[tick - held]
    finally:
        apart.shutdown()
        whole.shutdown()
