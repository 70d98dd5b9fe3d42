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
from rtc_agent.model.quantised import WeightFormat
from rtc_agent.model.random_weights import random_lm
from rtc_agent.model.spec import ModelSpec
from tests.golden import golden, golden_spec, replay
from tests.lockstep_model import (
    GREEDY,
    PROMPTED,
    SAMPLED,
    SPEC,
    Said,
    fresh_parts,
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


def parts(
    dtype: torch.dtype, spec: ModelSpec = SPEC, form: WeightFormat = "model"
) -> LockstepParts:
    return fresh_parts(CUDA, dtype, spec, form)


def stepper(
    dtype: torch.dtype,
    slots: int,
    backend: Backend | None = None,
    form: WeightFormat = "model",
) -> LockstepStepper:
    made = parts(dtype, form=form)
    return LockstepStepper(made, slots, prefill_chunk=8, backend=backend)


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
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_replayed_tick_is_the_launched_one(dtype: torch.dtype, kv: KvDtype) -> None:
    made = parts(dtype)
    with torch.inference_mode():
        model = kernels(kv).frame_model(made.spec, made.lm, made.mimi, 2)
        launched = _frames(model, 40, by_graph=False)
        replayed = _frames(model, 40, by_graph=True)
    assert launched == replayed


@pytest.mark.parametrize("slots", [2, 9, 40])
@pytest.mark.parametrize(
    ("kv", "form"), [("model", "model"), ("int8", "model"), ("model", "int8"), ("int8", "int4")]
)
def test_neighbours_and_slots_do_not_show(slots: int, kv: KvDtype, form: WeightFormat) -> None:
    """Bit for bit in bfloat16, in every form of the products: few rows, a tile, several tiles."""
    frames = noise(1, 45)
    engine = stepper(torch.bfloat16, slots, kernels(kv), form)
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
    ("kv", "form", "dtype", "least"),
    [
        ("model", "model", torch.float32, 0.999999),
        ("model", "model", torch.bfloat16, 0.999),
        ("int8", "model", torch.bfloat16, 0.995),
        ("model", "int8", torch.bfloat16, 0.998),
        ("model", "int4", torch.bfloat16, 0.9),
    ],
)
def test_logits_stay_near_float32(
    kv: KvDtype, form: WeightFormat, dtype: torch.dtype, least: float
) -> None:
    """The same small weights and the same tokens, over the ring's end too."""
    spec, file = golden_spec("lm_a").lm, golden("lm_a") / "model.safetensors"
    users = replay("lm_a")["user_codes"].long().to(CUDA)
    wide = TORCH.language_model(spec, load_lm(file, spec, device=CUDA), 1)
    weights = load_lm(file, spec, device=CUDA, dtype=dtype, form=form)
    narrow = kernels(kv).language_model(spec, weights, 1)
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
        weights=form,
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


@pytest.mark.parametrize(("form", "gib"), [("int8", 11.0), ("int4", 8.0)])
def test_narrow_weights_hold_one_call_in_a_small_card(form: WeightFormat, gib: float) -> None:
    """Everything that torch ever took, and what CUDA takes beside; a prompt is opened too."""
    spec = ModelSpec.released()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_reserved()
    engine = LockstepStepper(parts(torch.bfloat16, spec, form), 1)
    open_slot(engine, 0, SessionSpec("coded", "You are a helpful guide."))
    for frame in noise(1, 20):
        result = engine.step(frame[None], np.ones(1, np.bool_))
        assert not result.failed
    free, total = torch.cuda.mem_get_info()
    beside = total - free - torch.cuda.memory_reserved()
    peak = torch.cuda.max_memory_reserved() - held + beside
    report("peak memory", weights=form, gib=round(peak / 2**30, 2), beside=round(beside / 2**30, 2))
    engine.shutdown()
    assert peak <= gib * 2**30


@pytest.mark.parametrize("form", ["int8", "int4"])
def test_released_sizes_stay_near_bfloat16(form: WeightFormat) -> None:
    """Random weights: the text logits over forced tokens."""
    spec = ModelSpec.released().lm
    wide, narrow = (
        kernels().language_model(
            spec, random_lm(spec, 1, device=CUDA, dtype=torch.bfloat16, form=made), 1
        )
        for made in ("model", form)
    )
    live = torch.ones(1, dtype=torch.bool, device=CUDA)
    generator = torch.Generator(CUDA).manual_seed(1)
    cosines, same = [], []
    with torch.inference_mode():
        for _ in range(40):
            user = torch.randint(0, spec.card, (1, 8), generator=generator, device=CUDA)
            a = wide.tick(user, live, greedy=True).text_logits.float()
            b = narrow.tick(user, live, greedy=True).text_logits.float()
            narrow.state.column.copy_(wide.state.column)
            cosines.append(F.cosine_similarity(a, b).item())
            same.append((a.argmax() == b.argmax()).item())
    report(
        "released sizes against bfloat16",
        weights=form,
        least=min(cosines),
        mean=sum(cosines) / len(cosines),
        same_best=sum(same) / len(same),
    )
    assert min(cosines) > (0.995 if form == "int8" else 0.9)
