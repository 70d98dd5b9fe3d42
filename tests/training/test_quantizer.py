"""Codebooks in training: placed among what there is, moved after it, renewed when unused."""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_agent.training.codec_init import new_codec
from rtc_agent.training.keyed import KeyedTensors
from rtc_agent.training.quantizer import TrainedQuantizer
from tests.lockstep_model import SPEC

_USAGE = "quantizer.rvq_rest.vq.layers.0._codebook.cluster_usage"


def _quantizer() -> tuple[KeyedTensors, TrainedQuantizer]:
    tensors = new_codec(SPEC.mimi, 0)
    chance = torch.Generator().manual_seed(1)
    return tensors, TrainedQuantizer(tensors, "rvq_rest", 7, chance)


def _latents(seed: int, rows: int = 8) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    return torch.randn((rows, 40, SPEC.mimi.dimension), generator=chance)


def _apart(quantizer: TrainedQuantizer, latents: Tensor) -> float:
    made = quantizer(latents, learn=False).output
    return float((made - quantizer.bypass(latents)).detach().square().mean())


def test_placed_codebooks_are_near_and_each_nearer() -> None:
    _, quantizer = _quantizer()
    latents = _latents(0)
    quantizer.initialise(latents.flatten(0, 1), 40)
    passed = quantizer(latents, learn=False)
    power = float(quantizer.bypass(latents).detach().square().mean())
    assert _apart(quantizer, latents) < 0.1 * power
    assert passed.codes.shape == (8, 40, 7)
    assert min(quantizer.perplexities()) > 60


def test_codebooks_follow_what_moves() -> None:
    _, quantizer = _quantizer()
    latents = _latents(0)
    quantizer.initialise(latents.flatten(0, 1), latents.shape[0] * latents.shape[1])
    moved = 2 * latents + 1
    before = _apart(quantizer, moved)
    with torch.no_grad():
        for _ in range(150):
            quantizer(moved)
    assert _apart(quantizer, moved) < 0.3 * before


def test_a_code_that_nobody_uses_is_renewed() -> None:
    tensors, quantizer = _quantizer()
    latents = _latents(0)
    quantizer.initialise(latents.flatten(0, 1), 320)
    with torch.no_grad():
        tensors.fetch(_USAGE)[5] = 1e-4
        tensors.fetch(_USAGE.replace("cluster_usage", "embedding_sum"))[5] = 1e3
        quantizer(latents)
    assert float(tensors.fetch(_USAGE)[5]) > 1
    book = tensors.fetch(_USAGE.replace("cluster_usage", "embedding_sum"))[5]
    assert float((book / tensors.fetch(_USAGE)[5]).abs().max()) < 10


def test_gradients_pass_straight_through() -> None:
    _, quantizer = _quantizer()
    latents = _latents(0).requires_grad_()
    quantizer.initialise(latents.detach().flatten(0, 1), 320)
    quantizer(latents, learn=False).output.sum().backward()
    straight = latents.grad
    latents.grad = None
    quantizer.bypass(latents).sum().backward()
    assert straight is not None and latents.grad is not None
    torch.testing.assert_close(straight, latents.grad)
