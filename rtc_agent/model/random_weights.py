"""Weights drawn from a seed: real shapes and sound scales, for tests, benchmarks and the tiny one.

Every tensor has a generator of its own, keyed by its name, so that none depends on which others
were made. Scales keep activations near one through the depth, as training would have left them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from rtc_agent.model.mimi_weights import MimiWeights, assemble_mimi
from rtc_agent.model.quantised import WeightFormat
from rtc_agent.model.spec import COLUMN_ROWS, DEPFORMER_STEPS, LmSpec, MimiSpec
from rtc_agent.model.weights import Fetch, LmWeights, assemble_lm

_ELU_GAIN = math.sqrt(1.6)
"""Keeps a signal's variance through a convolution that follows an ELU."""
_SPEECH_GAIN = 0.05
"""On the decoder's last convolution: about the level of speech."""
_CODEBOOK_DECAY = 0.7
"""Each codebook's scale against the one before, as residuals shrink."""


def random_lm(
    spec: LmSpec,
    seed: int,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    form: WeightFormat = "model",
) -> LmWeights:
    """A language model of the spec's sizes, drawn on the device."""
    shapes = spec.shapes(DEPFORMER_STEPS)
    fetch = _fetch(shapes, _lm_scale, seed, torch.device(device), dtype)
    return assemble_lm(spec, fetch, form)


def random_mimi(spec: MimiSpec, seed: int, *, device: torch.device | str = "cpu") -> MimiWeights:
    """A codec of the spec's sizes, drawn on the device."""
    fetch = _fetch(spec.shapes(), _mimi_scale, seed, torch.device(device), torch.float32)
    return assemble_mimi(spec, fetch)


def _fetch(
    shapes: Mapping[str, tuple[int, ...]],
    scale: Callable[[str, tuple[int, ...]], tuple[float, float]],
    seed: int,
    device: torch.device,
    dtype: torch.dtype,
) -> Fetch:
    def fetch(key: str, rows: int | None) -> Tensor:
        shape = shapes[key] if rows is None else (rows, *shapes[key][1:])
        spread, centre = scale(key, shape)
        generator = torch.Generator(device)
        generator.manual_seed(zlib.crc32(f"{seed} {key}".encode()))
        drawn = torch.randn(shape, generator=generator, device=device, dtype=dtype)
        return drawn.mul_(spread).add_(centre)

    return fetch


def _lm_scale(key: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """Standard deviation and mean of a tensor's values."""
    if key.endswith("alpha"):
        return 0.05, 1.0
    if "emb." in key:
        return COLUMN_ROWS**-0.5, 0.0
    return float(shape[-1]) ** -0.5, 0.0


def _mimi_scale(key: str, shape: tuple[int, ...]) -> tuple[float, float]:
    if key.endswith(("norm1.weight", "norm2.weight")):
        return 0.05, 1.0
    if key.endswith("bias"):
        return 0.02, 0.0
    if key.endswith("scale"):
        return 0.02, 0.1
    if key.endswith("embedding_sum"):
        depth = int(key.split(".layers.")[1].split(".")[0])
        return _CODEBOOK_DECAY**depth, 0.0
    if key.endswith("cluster_usage"):
        return 0.0, 1.0
    if "convtr" in key:
        # Every output sample is a sum over the inputs of half the kernel.
        return _ELU_GAIN / math.sqrt(shape[0] * shape[2] / 2), 0.0
    gain = _SPEECH_GAIN if shape[0] == 1 else 1.0
    return gain * _ELU_GAIN / math.sqrt(math.prod(shape[1:])), 0.0
