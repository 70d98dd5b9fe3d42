"""Checkpoint files: every layout that is out there, and every way to be wrong named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rtc_agent.errors import CheckpointError
from rtc_agent.model.checkpoint import load_lm, load_mimi
from rtc_agent.model.random_weights import random_lm
from rtc_agent.model.spec import LmSpec
from rtc_agent.model.weights import LmWeights
from tests.golden import golden, golden_spec

torch.set_num_threads(1)

SPEC = LmSpec(
    dim=16, num_layers=2, num_heads=2, feedforward=66, context=10, window=9, depformer_dim=8,
    depformer_num_layers=2, depformer_num_heads=2, depformer_feedforward=33, text_card=20, card=12,
)  # fmt: skip


def _tensors(steps: int = 16) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        key: torch.randn(shape, generator=generator).bfloat16()
        for key, shape in SPEC.shapes(steps).items()
    }


def _split(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Attention by step, as Moshi's newer files have it."""
    out = {}
    for key, tensor in tensors.items():
        for name, parts, factor in (
            ("in_proj_weight", "in_projs", 3),
            ("out_proj.weight", "out_projs", 1),
        ):
            if key.endswith(name):
                for k, part in enumerate(tensor.split(factor * tensor.shape[1])):
                    out[f"{key.removesuffix(name)}{parts}.{k}.weight"] = part.clone()
                break
        else:
            out[key] = tensor
    return out


def _same(a: LmWeights, b: LmWeights) -> bool:
    pairs = [(getattr(a, n), getattr(b, n)) for n in LmWeights.__slots__ if "layers" not in n]
    for name in ("layers", "dep_layers"):
        for one, other in zip(getattr(a, name), getattr(b, name), strict=True):
            pairs += [(getattr(one, n), getattr(other, n)) for n in type(one).__slots__]
    return all(torch.equal(one, other) for one, other in pairs)


def _load(tmp_path: Path, tensors: dict[str, Tensor], spec: LmSpec = SPEC) -> LmWeights:
    file = tmp_path / "model.safetensors"
    save_file(tensors, file)
    return load_lm(file, spec)


def test_every_layout_gives_the_same_model(tmp_path: Path) -> None:
    full = _tensors()
    eight = {k: v for k, v in full.items() if k in SPEC.shapes(8)}
    for key in list(eight):
        eight[key] = eight[key][: SPEC.shapes(8)[key][0]].clone()
    whole = _load(tmp_path, full)
    for other in (eight, _split(full), _split(eight)):
        assert _same(whole, _load(tmp_path, other))
    moshi = replace(SPEC, depformer_checkpoint_steps=8)
    assert _same(whole, _load(tmp_path, eight, moshi))


def test_values_are_where_they_belong(tmp_path: Path) -> None:
    tensors = _tensors()
    loaded = _load(tmp_path, tensors)
    assert loaded.dtype == torch.float32
    wide = {key: tensor.float() for key, tensor in tensors.items()}
    assert torch.equal(loaded.audio_emb[11, :-1], wide["emb.11.weight"])
    assert torch.equal(loaded.dep_audio_emb[6, :-1], wide["depformer_emb.6.weight"])
    assert not loaded.audio_emb[:, -1].any()
    assert not loaded.text_emb[-1].any()
    layer = loaded.dep_layers[1]
    fused = wide["depformer.layers.1.self_attn.in_proj_weight"]
    assert torch.equal(layer.in_proj[7], fused[7 * 24 : 8 * 24])
    assert torch.equal(layer.linear_out[5], wide["depformer.layers.1.gating.5.linear_out.weight"])
    assert torch.equal(loaded.dep_heads[3], wide["linears.3.weight"])


def test_every_problem_is_named(tmp_path: Path) -> None:
    tensors = _tensors()
    del tensors["linears.15.weight"]
    del tensors["transformer.layers.1.norm1.alpha"]
    tensors["extra.bias"] = torch.zeros(3)
    tensors["out_norm.alpha"] = torch.zeros(1, 1, 15)
    with pytest.raises(CheckpointError) as raised:
        _load(tmp_path, tensors)
    message = raised.value.message
    assert "missing linears.15.weight [12, 8]" in message
    assert "missing transformer.layers.1.norm1.alpha [1, 1, 16]" in message
    assert "left over extra.bias [3]" in message
    assert "out_norm.alpha is [1, 1, 15], expected [1, 1, 16]" in message
    assert message.count(";") == 3


def test_a_missing_step_of_a_split_file_is_named(tmp_path: Path) -> None:
    tensors = _split(_tensors())
    del tensors["depformer.layers.0.self_attn.in_projs.3.weight"]
    with pytest.raises(
        CheckpointError, match=r"missing depformer.layers.0.self_attn.in_projs.3.weight \[24, 8\]"
    ):
        _load(tmp_path, tensors)


def test_damaged_and_absent_files_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    with pytest.raises(CheckpointError, match="does not exist"):
        load_lm(file, SPEC)
    save_file(_tensors(), file)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_lm(file, SPEC)
    file.write_bytes(b"not a checkpoint at all")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_lm(file, SPEC)


def test_progress_counts_bytes_and_skips_what_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file(_tensors(), file)
    seen: list[tuple[int, int]] = []
    load_lm(file, SPEC, progress=lambda done, total: seen.append((done, total)))
    done = [d for d, _ in seen]
    assert done == sorted(done)
    assert {total for _, total in seen} == {file.stat().st_size}
    assert done[-1] < file.stat().st_size


def test_the_model_outlives_its_file(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({k: v.float() for k, v in _tensors().items()}, file)
    loaded = load_lm(file, SPEC)
    kept = loaded.text_linear.clone()
    file.write_bytes(b"\0" * file.stat().st_size)
    assert torch.equal(loaded.text_linear, kept)


def test_codec_problems_are_named(tmp_path: Path) -> None:
    tensors = load_file(golden("mimi_a") / "mimi.safetensors")
    del tensors["downsample.conv.conv.conv.weight"]
    tensors["decoder.model.0.conv.conv.bias"] = torch.zeros(7)
    file = tmp_path / "mimi.safetensors"
    save_file(tensors, file)
    with pytest.raises(CheckpointError) as raised:
        load_mimi(file, golden_spec("mimi_a").mimi)
    assert "missing downsample.conv.conv.conv.weight [64, 64, 4]" in raised.value.message
    assert "decoder.model.0.conv.conv.bias is [7], expected [128]" in raised.value.message


def test_random_weights_have_the_checkpoint_shapes_and_their_seed() -> None:
    one, same, other = random_lm(SPEC, 1), random_lm(SPEC, 1), random_lm(SPEC, 2)
    assert _same(one, same)
    assert not _same(one, other)
    assert one.dep_layers[0].in_proj.shape == (8, 24, 8)
    assert not one.audio_emb[:, -1].any()
