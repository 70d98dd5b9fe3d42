"""Eight- and four-bit weights: what they stand for, and how near a model with them stays."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from rtc_agent.model import quantised
from rtc_agent.model.checkpoint import load_lm
from rtc_agent.model.lm import LanguageModel
from rtc_agent.model.memory_plan import memory_need
from rtc_agent.model.quantised import QuantisedWeight, WeightFormat, linear, narrowed
from rtc_agent.model.random_weights import random_lm
from rtc_agent.model.spec import ModelSpec
from tests.allocations import PeakBytes
from tests.golden import golden, golden_spec, replay

torch.set_num_threads(1)


def matrix(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("bits", "largest"), [(8, 0.01), (4, 0.12)])
@pytest.mark.parametrize("shape", [(5, 128), (7, 192), (3, 6, 64)])
def test_weights_stand_for_what_they_were(
    bits: int, largest: float, shape: tuple[int, ...]
) -> None:
    wide = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    held = narrowed(wide, bits)
    assert isinstance(held, QuantisedWeight)
    assert held.shape == shape
    assert (held.dense(torch.float32) - wide).norm() < largest * wide.norm()
    x = matrix(4, shape[-1], seed=2)
    part = held if len(shape) == 2 else held[1]
    assert torch.equal(linear(x, part), F.linear(x, part.dense(torch.float32)))
    if len(shape) == 3:
        flat = held.flatten(0, 1)
        assert torch.equal(flat.dense(torch.float32), held.dense(torch.float32).flatten(0, 1))


def test_every_value_of_four_bits_is_kept_where_it_was() -> None:
    wide = torch.arange(-7, 9).float().repeat(4)[None].clamp(max=7)
    held = narrowed(wide, 4)
    assert isinstance(held, QuantisedWeight)
    assert (held.dense(torch.float32) - wide).abs().max() < 1e-3


def test_rows_too_short_for_groups_stay_wide() -> None:
    wide = matrix(4, 24)
    assert narrowed(wide, 4) is wide


@pytest.mark.parametrize("form", ["int8", "int4"])
def test_a_model_is_planned_as_large_as_it_is(form: WeightFormat) -> None:
    spec = ModelSpec.from_config({"lm": {"dim": 256, "num_layers": 2, "num_heads": 4,
        "depformer_dim": 128, "depformer_num_layers": 1, "depformer_num_heads": 2,
        "text_card": 500}})  # fmt: skip
    made = random_lm(spec.lm, 0, form=form)
    assert _bytes(made) == pytest.approx(
        memory_need(spec, "float32", "cpu", form=form).weights, rel=0.02
    )


def _bytes(value: object) -> int:
    if isinstance(value, torch.Tensor):
        return value.nbytes
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    names = getattr(value, "__dataclass_fields__", ())
    return sum(_bytes(getattr(value, name)) for name in names)


@pytest.mark.parametrize(("form", "least"), [("int8", 0.9995), ("int4", 0.97)])
def test_logits_stay_near_the_wide_model(form: WeightFormat, least: float) -> None:
    """On the mean of a recording; so small a model of random weights shows an error most."""
    spec = golden_spec("lm_a").lm
    file = golden("lm_a") / "model.safetensors"
    wide, narrow = (
        LanguageModel(spec, weights, 1)
        for weights in (load_lm(file, spec), load_lm(file, spec, form=form))
    )
    assert isinstance(narrow.weights.layers[0].linear_in, QuantisedWeight)
    live = torch.ones(1, dtype=torch.bool)
    cosines = []
    for user in replay("lm_a")["user_codes"].long()[:40]:
        a = wide.tick(user[None], live, greedy=True).text_logits
        b = narrow.tick(user[None], live, greedy=True).text_logits
        narrow.state.column.copy_(wide.state.column)
        cosines.append(F.cosine_similarity(a, b).item())
    assert sum(cosines) / len(cosines) >= least


LARGE = ModelSpec.from_config({"lm": {"dim": 256, "num_layers": 1, "num_heads": 4,
    "depformer_dim": 64, "depformer_num_layers": 1, "depformer_num_heads": 2,
    "text_card": 300, "card": 64}}).lm  # fmt: skip


@pytest.mark.parametrize("form", ["int8", "int4"])
def test_loading_narrow_weights_needs_little_beside_them(
    form: WeightFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No matrix is ever wide as a whole: what is worked with is a few rows, whatever its size."""
    shapes = LARGE.shapes(8)
    file = tmp_path / "lm.safetensors"
    save_file({key: torch.full(shape, 0.5).bfloat16() for key, shape in shapes.items()}, file)
    largest = max(math.prod(shape) for shape in shapes.values()) * torch.bfloat16.itemsize
    at_once = largest // 32
    monkeypatch.setattr(quantised, "_NARROW_AT_ONCE", at_once)
    with PeakBytes() as memory:
        weights = load_lm(file, LARGE, dtype=torch.bfloat16, form=form)
    assert memory.now == pytest.approx(_bytes(weights), rel=0.01)
    assert memory.peak < _bytes(weights) + largest / 2


@pytest.mark.parametrize("bits", [4, 8])
def test_how_many_rows_are_narrowed_at_once_changes_nothing(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = matrix(37, 128)
    whole = narrowed(wide, bits)
    monkeypatch.setattr(quantised, "_NARROW_AT_ONCE", 3 * 128)
    parts = narrowed(wide, bits)
    assert isinstance(whole, QuantisedWeight) and isinstance(parts, QuantisedWeight)
    assert torch.equal(whole.values, parts.values)
    assert torch.equal(whole.scales, parts.scales)
    assert torch.equal(wide, matrix(37, 128)), "the wide matrix was worked in"


@pytest.mark.parametrize("bits", [4, 8])
def test_widening_for_a_product_needs_a_part_of_the_matrix(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = narrowed(matrix(1024, 256), bits)
    x = matrix(2, 256)
    monkeypatch.setattr(quantised, "_WIDEN_AT_ONCE", 32 * 256)
    with PeakBytes() as memory:
        linear(x, held)
    wide = 1024 * 256 * x.itemsize
    assert memory.peak < wide / 8
