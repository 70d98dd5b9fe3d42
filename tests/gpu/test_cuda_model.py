"""Our kernels and the captured tick on a CUDA device. Run with `-m gpu -s`."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from rtc_agent.engine.lockstep import LockstepParts, LockstepStepper
from rtc_agent.engine.stepper import FRAME_SAMPLES, SamplingSpec, SessionSpec
from rtc_agent.errors import CaptureFailed
from rtc_agent.model.backend import TORCH, Backend, KvDtype, backend_for
from rtc_agent.model.checkpoint import load_lm
from rtc_agent.model.frame_model import FrameModel
from rtc_agent.model.precision import use_exact_float32
from rtc_agent.model.random_weights import random_lm, random_mimi
from rtc_agent.model.spec import ModelSpec
from tests.golden import golden, golden_spec, replay
from tests.lockstep_model import (
    GREEDY,
    PROMPTED,
    SAMPLED,
    SPEC,
    Bytes,
    Ids,
    Said,
    TwoVoices,
    noise,
    open_slot,
    run_alone,
    step_one,
)

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

CUDA = torch.device("cuda")


@pytest.fixture(autouse=True)
def exact_float32() -> None:
    use_exact_float32()


def report(name: str, **figures: object) -> None:
    """One JSON line a figure, for `-s`."""
    print(json.dumps({"figure": name, **figures}))


def parts(dtype: torch.dtype, spec: ModelSpec = SPEC) -> LockstepParts:
    return LockstepParts(
        spec=spec,
        lm=random_lm(spec.lm, 1, device=CUDA, dtype=dtype),
        mimi=random_mimi(spec.mimi, 1, device=CUDA),
        text_encoder=Bytes(),
        text_stream=Ids,
        voices=TwoVoices(),
        agent="test",
        description="A model for tests.",
    )


def stepper(dtype: torch.dtype, slots: int, backend: Backend | None = None) -> LockstepStepper:
    return LockstepStepper(parts(dtype), slots, prefill_chunk=8, backend=backend)


def kernels(kv: KvDtype = "auto") -> Backend:
    return backend_for(CUDA, kv=kv)


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("spec", [GREEDY, SAMPLED, PROMPTED])
def test_kernels_say_what_plain_torch_says(spec: SessionSpec, slots: int) -> None:
    """The same tokens in float32, drawn with the same noise, and the same sound."""
    frames = noise(2, 50)
    wanted = run_alone(stepper(torch.float32, slots, TORCH), slots - 1, spec, frames)
    found = run_alone(stepper(torch.float32, slots), slots - 1, spec, frames)
    assert found.text == wanted.text
    error = max(np.abs(a - b).max() for a, b in zip(found.pcm, wanted.pcm, strict=True))
    report("kernels against torch", error=float(error))
    assert error < 1e-5


def _frames(model: FrameModel, ticks: int, by_graph: bool) -> list[tuple[object, ...]]:
    """Two sessions, one of which sits some ticks out."""
    out: list[tuple[object, ...]] = []
    for row in range(2):
        model.open(row, SamplingSpec(seed=row), row, None)
    for tick in range(ticks):
        pcm, live = noise(tick, 2), np.array([True, tick % 4 != 2])
        if by_graph:
            host = model.step(pcm, live)
            out.append((host.pcm.tobytes(), host.text, host.healthy))
        else:
            frame = model.run(torch.from_numpy(pcm).to(CUDA), torch.from_numpy(live).to(CUDA))
            sound = frame.pcm.cpu().numpy().tobytes()
            out.append((sound, frame.text.tolist(), frame.healthy.tolist()))
    return out


@pytest.mark.parametrize("kv", ["model", "int8"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_replayed_tick_is_the_launched_one(dtype: torch.dtype, kv: KvDtype) -> None:
    made = parts(dtype)
    with torch.inference_mode():
        model = kernels(kv).frame_model(made.spec, made.lm, made.mimi, 2)
        launched = _frames(model, 40, by_graph=False)
        replayed = _frames(model, 40, by_graph=True)
    assert launched == replayed


@pytest.mark.parametrize("slots", [2, 9, 40])
@pytest.mark.parametrize("kv", ["model", "int8"])
def test_neighbours_and_slots_do_not_show(slots: int, kv: KvDtype) -> None:
    """Bit for bit in bfloat16, in every form of the products: few rows, a tile, several tiles."""
    frames = noise(1, 45)
    engine = stepper(torch.bfloat16, slots, kernels(kv))
    for spec in (SAMPLED, PROMPTED):
        alone = run_alone(engine, slots - 1, spec, frames)
        for slot in range(slots - 1):
            open_slot(engine, slot, SessionSpec(sampling=SamplingSpec(seed=slot)))
        open_slot(engine, slots - 1, spec)
        rng = np.random.default_rng(3)
        for at, frame in enumerate(frames):
            pcm = noise(100 + at, slots)
            pcm[-1] = frame
            if at == 20:
                pcm[0] = np.nan
            live = rng.random(slots) < 0.7
            live[0], live[-1] = True, True
            result = engine.step(pcm, live)
            assert set(result.failed) == ({0} if at >= 20 else set())
            assert np.array_equal(result.pcm[-1], alone.pcm[at])
            assert result.text.get(slots - 1, "") == alone.text[at]
        for slot in range(slots):
            engine.close(slot)
        assert run_alone(engine, 0, spec, frames) == alone


def test_a_capture_leaves_nothing_in_the_first_session() -> None:
    frames = noise(4, 30)
    engine = stepper(torch.bfloat16, 2)
    first = run_alone(engine, 0, SAMPLED, frames)
    assert run_alone(engine, 0, SAMPLED, frames) == first


def test_an_opening_between_ticks_does_not_show() -> None:
    frames = noise(5, 30)
    engine = stepper(torch.bfloat16, 2)
    alone = run_alone(engine, 0, PROMPTED, frames)
    engine.prefixes.clear()
    said = Said()
    open_slot(engine, 0, PROMPTED)
    pieces = engine.open(1, SessionSpec("recorded", "Be brief."))
    for frame in frames:
        step_one(engine, 0, frame, said)
        next(pieces, None)
    assert said == alone


@pytest.mark.parametrize(
    ("kv", "dtype", "least"),
    [
        ("model", torch.float32, 0.999999),
        ("model", torch.bfloat16, 0.999),
        ("int8", torch.bfloat16, 0.995),
    ],
)
def test_logits_stay_near_float32(kv: KvDtype, dtype: torch.dtype, least: float) -> None:
    """The same small weights and the same tokens, over the ring's end too."""
    spec, file = golden_spec("lm_a").lm, golden("lm_a") / "model.safetensors"
    users = replay("lm_a")["user_codes"].long().to(CUDA)
    wide = TORCH.language_model(spec, load_lm(file, spec, device=CUDA), 1)
    narrow = kernels(kv).language_model(spec, load_lm(file, spec, device=CUDA, dtype=dtype), 1)
    live = torch.ones(1, dtype=torch.bool, device=CUDA)
    cosines, same = [], []
    with torch.inference_mode():
        for user in users:
            a = wide.tick(user[None], live, greedy=True).text_logits.float()
            b = narrow.tick(user[None], live, greedy=True).text_logits.float()
            narrow.state.column.copy_(wide.state.column)
            cosines.append(F.cosine_similarity(a, b).item())
            same.append((a.argmax() == b.argmax()).item())
    report(
        "logits against float32",
        dtype=str(dtype),
        kv=kv,
        least=min(cosines),
        mean=sum(cosines) / len(cosines),
        same_best=sum(same) / len(same),
    )
    assert min(cosines) >= least


def test_a_tick_that_cannot_be_captured_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    from rtc_agent.model.cuda.frame import FrameGraph

    launch = FrameGraph.launch

    def waiting(self: FrameGraph) -> None:
        launch(self)
        self.healthy.tolist()

    monkeypatch.setattr(FrameGraph, "launch", waiting)
    with pytest.raises(CaptureFailed, match="--kernels off"):
        stepper(torch.bfloat16, 1)
    monkeypatch.undo()
    engine = stepper(torch.bfloat16, 1)
    open_slot(engine, 0, GREEDY)
    result = engine.step(np.zeros((1, FRAME_SAMPLES), np.float32), np.ones(1, np.bool_))
    assert not result.failed
