from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rtc_agent.errors import NotEnoughMemory
from rtc_agent.model import memory_plan
from rtc_agent.model.frame_model import FrameModel
from rtc_agent.model.memory_plan import free_memory, memory_need, require_memory
from rtc_agent.model.mimi_weights import assemble_mimi
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.weights import assemble_lm

GIB = 1 << 30
RELEASED = ModelSpec.released()
SMALL = ModelSpec.from_config(
    {
        "lm": {"dim": 64, "num_layers": 3, "num_heads": 4, "depformer_dim": 32, "context": 500,
               "depformer_num_layers": 2, "depformer_num_heads": 2, "text_card": 900},
        "mimi": {"n_filters": 8, "dimension": 64,
                 "transformer": {"num_layers": 2, "num_heads": 4, "dim_feedforward": 128},
                 "quantizer": {"dimension": 32, "bins": 128}},
        "silence_codes": [1] * 8,
    }
)  # fmt: skip


def tensor_bytes(value: object, seen: set[int]) -> int:
    """Bytes of every distinct tensor storage that an object holds on to."""
    if isinstance(value, Tensor):
        storage = value.untyped_storage()
        if storage.data_ptr() in seen:
            return 0
        seen.add(storage.data_ptr())
        return storage.nbytes()
    if isinstance(value, list | tuple):
        return sum(tensor_bytes(item, seen) for item in value)
    if dataclasses.is_dataclass(value):
        return sum(tensor_bytes(getattr(value, f.name), seen) for f in dataclasses.fields(value))
    if type(value).__module__.startswith("rtc_agent."):
        return sum(tensor_bytes(item, seen) for item in vars(value).values())
    return 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_plan_is_what_a_model_takes(dtype: str) -> None:
    """Measured on real objects: the weights as loaded, the state of a batch of four."""
    need = memory_need(SMALL, dtype, "cpu")
    shapes = SMALL.lm.shapes(8)

    def fetch(key: str, rows: int | None) -> Tensor:
        shape = shapes[key]
        return torch.zeros((rows or shape[0], *shape[1:]), dtype=getattr(torch, dtype))

    def fetch_codec(key: str, rows: int | None) -> Tensor:
        return torch.zeros(SMALL.mimi.shapes()[key])

    lm, mimi = assemble_lm(SMALL.lm, fetch), assemble_mimi(SMALL.mimi, fetch_codec)
    weights, codec = tensor_bytes(lm, set()), tensor_bytes(mimi, set())
    assert weights == pytest.approx(need.weights, rel=0.02)
    assert codec == pytest.approx(need.codec, rel=0.02)
    seen: set[int] = set()
    tensor_bytes((lm, mimi), seen)
    four = tensor_bytes(FrameModel(SMALL, lm, mimi, 4), seen)
    # Beside the rings a session has its convolutions' state and its share of the activations.
    rings = need.session - memory_plan._ROW_BYTES
    assert 4 * rings <= four <= 4 * need.session


def test_released_sizes() -> None:
    """The figures that a person plans a machine with."""
    need = memory_need(RELEASED, "bfloat16", "cuda")
    assert need.weights / GIB == pytest.approx(14.3, abs=0.1)
    assert need.session / GIB == pytest.approx(1.5, abs=0.05)
    assert need.sessions_in(24 * GIB) >= 4
    assert need.sessions_in(8 * GIB) == 0


def refusal(free: int, sessions: int = 32, dtype: str = "bfloat16", device: str = "cuda:0") -> str:
    with pytest.raises(NotEnoughMemory) as caught:
        require_memory(RELEASED, dtype, sessions, device=device, free=free)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_fitting_plan_is_returned() -> None:
    need = require_memory(RELEASED, "bfloat16", 2, device="cuda", free=24 * GIB)
    exact = need.total(2)
    require_memory(RELEASED, "bfloat16", 2, device="cuda", free=exact)
    with pytest.raises(NotEnoughMemory):
        require_memory(RELEASED, "bfloat16", 2, device="cuda", free=exact - 1)


def test_refusal_has_the_numbers_and_the_flag_that_helps() -> None:
    message = refusal(24 * GIB)
    assert "32 sessions in bfloat16 need" in message and "24.0 GiB are free" in message
    fitting = int(message.partition("--sessions ")[2].split()[0])
    require_memory(RELEASED, "bfloat16", fitting, device="cuda", free=24 * GIB)
    with pytest.raises(NotEnoughMemory):
        require_memory(RELEASED, "bfloat16", fitting + 1, device="cuda", free=24 * GIB)


def test_narrower_numbers_are_named_when_they_help() -> None:
    message = refusal(24 * GIB, sessions=2, dtype="float32")
    assert message.endswith("--dtype bfloat16 --sessions 2 fits.")
    require_memory(RELEASED, "bfloat16", 2, device="cuda", free=24 * GIB)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_flag_is_named_that_would_not_help(dtype: str) -> None:
    message = refusal(8 * GIB, sessions=1, dtype=dtype, device="cpu")
    assert message.startswith(f"1 session in {dtype} needs ")
    assert "--sessions" not in message and "--dtype" not in message
    assert "in bfloat16; choose another --device" in message


def test_kept_prompts_count() -> None:
    need = memory_need(RELEASED, "bfloat16", "cuda", prefix_bytes=2 * GIB)
    assert need.total(1) - memory_need(RELEASED, "bfloat16", "cuda").total(1) == 2 * GIB


def test_banks_lay_the_codec_out_for_themselves_and_are_advised_of_as_a_whole() -> None:
    one = memory_need(RELEASED, "bfloat16", "cuda")
    four = memory_need(RELEASED, "bfloat16", "cuda", banks=4)
    assert four.total(8) - one.total(8) == 3 * one.codec
    assert memory_need(RELEASED, "float32", "cpu", banks=4) == memory_need(
        RELEASED, "float32", "cpu"
    )
    with pytest.raises(NotEnoughMemory) as caught:
        require_memory(RELEASED, "bfloat16", 64, device="cuda", free=80 * GIB, banks=4)
    advised = int(caught.value.message.partition("--sessions ")[2].split()[0])
    assert advised and advised % 4 == 0
    require_memory(RELEASED, "bfloat16", advised, device="cuda", free=80 * GIB, banks=4)


def test_free_memory_of_this_machine() -> None:
    assert 1 << 20 < free_memory(torch.device("cpu")) < 1 << 50


def test_containers_bound_what_is_free(tmp_path: Path) -> None:
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_plan._container_free(tmp_path) > 1 << 60
    (tmp_path / "memory.max").write_text("4000\n")
    assert memory_plan._container_free(tmp_path) == 3000
    assert memory_plan._container_free(tmp_path / "none") > 1 << 60
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:    4 kB\n")
    assert memory_plan._system_free(meminfo) == 4096
