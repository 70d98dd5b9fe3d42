"""Eight-bit checkpoint files: written, read back, and everything wrong with one named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rtc_agent.errors import CheckpointError
from rtc_agent.model.checkpoint import load_lm, load_mimi
from rtc_agent.training.eight_bit import output_axis, save_eight_bit
from tests.lockstep_model import SPEC


def _tensors(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    chance = torch.Generator().manual_seed(0)
    # Outputs of very different sizes, which one scale for all could not hold.
    return {
        key: torch.randn(shape, generator=chance)
        * 10
        ** torch.linspace(-2, 1, shape[output_axis(key, shape)]).view(
            [-1 if i == output_axis(key, shape) else 1 for i in range(len(shape))]
        )
        for key, shape in shapes.items()
    }


def test_the_language_model_comes_back_within_half_a_step(tmp_path: Path) -> None:
    tensors = _tensors(SPEC.lm.shapes(8))
    wide, narrow = tmp_path / "wide.safetensors", tmp_path / "narrow.safetensors"
    save_file(tensors, wide)
    size = save_eight_bit(tensors, narrow)
    assert size == narrow.stat().st_size < wide.stat().st_size / 3
    whole, eight = load_lm(wide, SPEC.lm), load_lm(narrow, SPEC.lm)
    for a, b in (
        (whole.audio_emb[:, :-1], eight.audio_emb[:, :-1]),
        (whole.layers[1].linear_in, eight.layers[1].linear_in),
        (whole.dep_layers[0].in_proj, eight.dep_layers[0].in_proj),
        (whole.dep_heads, eight.dep_heads),
    ):
        step = a.abs().amax(-1, keepdim=True) / 127
        assert ((a - b).abs() <= 0.51 * step + 1e-6).all()
        assert not torch.equal(a, b)
    assert not eight.audio_emb[:, -1].any()
    torch.testing.assert_close(whole.out_norm, eight.out_norm, atol=1e-2, rtol=1e-3)


def test_so_does_the_codec(tmp_path: Path) -> None:
    tensors = _tensors(SPEC.mimi.shapes())
    for key in tensors:
        if key.endswith("cluster_usage"):
            tensors[key] = torch.ones_like(tensors[key])
    wide, narrow = tmp_path / "wide.safetensors", tmp_path / "narrow.safetensors"
    save_file(tensors, wide)
    save_eight_bit(tensors, narrow)
    whole, eight = load_mimi(wide, SPEC.mimi), load_mimi(narrow, SPEC.mimi)
    up, up8 = whole.decoder_blocks[0][0], eight.decoder_blocks[0][0]
    step = up.weight.abs().amax((0, 2), keepdim=True) / 127
    assert ((up.weight - up8.weight).abs() <= 0.51 * step + 1e-6).all()
    first, first8 = whole.encoder_blocks[0][1].weight, eight.encoder_blocks[0][1].weight
    step = first.abs().amax((1, 2), keepdim=True) / 127
    assert ((first - first8).abs() <= 0.51 * step + 1e-6).all()
    # Codebooks are not narrowed.
    assert torch.equal(eight.semantic.codebooks, whole.semantic.codebooks.half().float())


def test_everything_wrong_is_named(tmp_path: Path) -> None:
    file = tmp_path / "lm.safetensors"
    save_eight_bit(_tensors(SPEC.lm.shapes(8)), file)
    tensors = load_file(file)
    del tensors["text_linear.weight_scale"]
    del tensors["emb.3.weight"]
    tensors["text_emb.weight_scale"] = torch.ones(1, 7)
    tensors["linears.0.weight_scale"] = torch.ones(64)
    save_file(tensors, file)
    with pytest.raises(CheckpointError) as raised:
        load_lm(file, SPEC.lm)
    message = raised.value.message
    assert "missing text_linear.weight_scale" in message
    assert "missing emb.3.weight [65, 32]" in message
    assert "left over emb.3.weight_scale [65, 1]" in message
    assert "text_emb.weight_scale is [1, 7], which does not scale [301, 32]" in message
    assert "linears.0.weight_scale is [64]" in message
    assert message.count(";") == 4


def test_part_of_an_eight_bit_tensor_takes_part_of_its_scales(tmp_path: Path) -> None:
    full = _tensors(SPEC.lm.shapes(16))
    whole, narrow = tmp_path / "whole.safetensors", tmp_path / "narrow.safetensors"
    save_file(full, whole)
    save_eight_bit(full, narrow)
    a, b = (load_lm(path, SPEC.lm).dep_layers[0].in_proj for path in (whole, narrow))
    assert a.shape == b.shape == (8, 48, 16)
    assert ((a - b).abs() <= 0.51 * a.abs().amax(-1, keepdim=True) / 127 + 1e-6).all()
