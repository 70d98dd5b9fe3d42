"""The model on a CUDA device: exact, isolated, at its released sizes. Run with `-m gpu -s`."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from rtc_agent.engine.lockstep import LockstepParts, LockstepStepper
from rtc_agent.engine.stepper import SamplingSpec, SessionSpec
from rtc_agent.model.checkpoint import load_lm
from rtc_agent.model.lm import LanguageModel
from rtc_agent.model.spec import MOSHI, PERSONAPLEX, ModelSpec
from rtc_agent.verify import verify
from tests.golden import NAMES, golden, golden_spec, replay
from tests.lockstep_model import (
    GREEDY,
    PROMPTED,
    SPEC,
    fresh_parts,
    noise,
    open_slot,
    run_alone,
)

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

CUDA = "cuda"


def report(name: str, **figures: object) -> None:
    """One JSON line a figure, for `-s`."""
    print(json.dumps({"figure": name, **figures}))


def parts(spec: ModelSpec, dtype: torch.dtype) -> LockstepParts:
    return fresh_parts(torch.device(CUDA), dtype, spec)


@pytest.mark.parametrize("name", NAMES)
def test_every_replay_is_exact(name: str) -> None:
    result = verify(golden(name), CUDA)
    report("verify", folder=name, **result.as_json())
    assert result.ok


def test_bfloat16_stays_near_float32() -> None:
    """The same small weights, the same forced tokens: how far the text logits turn."""
    spec, file = golden_spec("lm_a").lm, golden("lm_a") / "model.safetensors"
    users = replay("lm_a")["user_codes"].long().to(CUDA)
    models = [
        LanguageModel(spec, load_lm(file, spec, device=CUDA, dtype=dtype), 1)
        for dtype in (torch.float32, torch.bfloat16)
    ]
    live = torch.ones(1, dtype=torch.bool, device=CUDA)
    cosines = []
    with torch.inference_mode():
        for user in users:
            wide, narrow = (model.tick(user[None], live, greedy=True) for model in models)
            models[1].state.column.copy_(models[0].state.column)
            a, b = wide.text_logits.float(), narrow.text_logits.float()
            cosines.append(F.cosine_similarity(a, b).item())
    report("bf16 cosine", least=min(cosines), mean=sum(cosines) / len(cosines))
    assert min(cosines) >= 0.999


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_session_is_the_same_alone_and_in_company(dtype: torch.dtype) -> None:
    frames = noise(1, 60)
    engine = LockstepStepper(parts(SPEC, dtype), 4)
    for spec in (GREEDY, PROMPTED):
        alone = run_alone(engine, 2, spec, frames)
        for slot in (0, 1, 3):
            open_slot(engine, slot, SessionSpec(sampling=SamplingSpec(seed=slot)))
        open_slot(engine, 2, spec)
        for at, frame in enumerate(frames):
            pcm = noise(100 + at, 4)
            pcm[2] = frame
            if at == 30:
                pcm[1] = np.nan
            live = np.array([at % 3 > 0, True, True, at > 10])
            result = engine.step(pcm, live)
            assert set(result.failed) == ({1} if at >= 30 else set())
            assert np.array_equal(result.pcm[2], alone.pcm[at])
            assert result.text.get(2, "") == alone.text[at]
        for slot in range(4):
            engine.close(slot)
        assert run_alone(engine, 2, spec, frames) == alone


@pytest.mark.parametrize("family", [PERSONAPLEX, MOSHI])
@pytest.mark.parametrize("slots", [1, 4])
def test_the_released_sizes_run_past_their_window(family: object, slots: int) -> None:
    spec = ModelSpec.released(MOSHI if family is MOSHI else PERSONAPLEX)
    prompted = spec.family.takes_prompts
    began = time.perf_counter()
    engine = LockstepStepper(parts(spec, torch.bfloat16), slots)
    torch.cuda.synchronize()
    made_s = time.perf_counter() - began
    voice, persona = ("recorded", "You are a helpful guide.") if prompted else (None, None)
    began = time.perf_counter()
    pieces = 0
    for slot in range(slots):
        sampling = SamplingSpec(seed=slot)
        pieces += open_slot(engine, slot, SessionSpec(voice, persona, sampling))
    torch.cuda.synchronize()
    opened_s = time.perf_counter() - began
    live = np.ones(slots, np.bool_)
    ticks = 3_200 if slots == 1 and prompted else 200
    pcm = noise(1, slots)
    times: list[float] = []
    held = settled = 0
    for tick in range(ticks):
        began = time.perf_counter()
        result = engine.step(np.roll(pcm, tick * 77, axis=1), live)
        times.append(1e3 * (time.perf_counter() - began))
        assert not result.failed
        if tick == 20:
            held = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            settled = torch.cuda.memory_reserved()
    assert torch.cuda.memory_allocated() <= held
    assert torch.cuda.memory_reserved() <= settled
    p50, p99 = np.percentile(times[20:], [50, 99])
    report(
        "released sizes",
        family=spec.family.name,
        slots=slots,
        ticks=ticks,
        tick_ms={"p50": round(p50, 2), "p99": round(p99, 2), "max": round(max(times[20:]), 2)},
        made_s=round(made_s, 1),
        opened_s=round(opened_s, 2),
        pieces=pieces,
        memory_gib=round(held / 2**30, 2),
        peak_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2),
    )
    engine.shutdown()
    del engine
    torch.cuda.empty_cache()


def test_a_checkpoint_is_read_straight_to_the_device(tmp_path: Path) -> None:
    spec = replace(golden_spec("lm_a").lm)
    seen: list[int] = []
    weights = load_lm(
        golden("lm_a") / "model.safetensors",
        spec,
        device=CUDA,
        dtype=torch.bfloat16,
        progress=lambda done, _: seen.append(done),
    )
    assert weights.device.type == "cuda"
    assert weights.dtype == torch.bfloat16
    assert seen == sorted(seen)
