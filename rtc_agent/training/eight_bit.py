"""Checkpoint files of eight bits a weight, as `rtc_agent.model.checkpoint` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rtc_agent.model.checkpoint import SCALE_SUFFIX
from rtc_agent.training.keyed import is_matrix

_LEAST_SCALE = 1e-7
"""The smallest that float16 can hold, nearly; what is smaller is zero."""


def eight_bit(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices and convolutions as int8 with one float16 scale an output; the rest as float16.

    Codebooks stay float16: which vector is nearest turns on small differences.
    """
    out: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        if not _is_matrix(key, tensor):
            out[key] = tensor.half().contiguous()
            continue
        wide = tensor.float()
        axis = output_axis(key, tensor.shape)
        others = [i for i in range(tensor.ndim) if i != axis]
        scale = (wide.abs().amax(others, keepdim=True) / 127).clamp(min=_LEAST_SCALE).half()
        steps = (wide / scale.float()).round().clamp(-127, 127)
        out[key] = steps.to(torch.int8).contiguous()
        out[key + SCALE_SUFFIX] = scale.contiguous()
    return out


def rounded(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What such a file's tensors come back as, float32."""
    narrow = eight_bit(tensors)
    return {key: _widened(narrow, key) for key in tensors}


def _widened(narrow: Mapping[str, Tensor], key: str) -> Tensor:
    tensor = narrow[key].float()
    if (scale := narrow.get(key + SCALE_SUFFIX)) is not None:
        tensor = tensor * scale.float()
    return tensor


def load_eight_bit(path: Path) -> dict[str, Tensor]:
    """The tensors of such a file, float32."""
    narrow = load_file(path)
    return {key: _widened(narrow, key) for key in narrow if not key.endswith(SCALE_SUFFIX)}


def output_axis(key: str, shape: tuple[int, ...]) -> int:
    """The dimension of a weight that counts its outputs.

    It is the second of transposed convolutions, [in, out, kernel], unless they are depthwise.
    """
    return 1 if "convtr" in key and len(shape) == 3 and shape[1] > 1 else 0


def save_eight_bit(tensors: Mapping[str, Tensor], path: Path) -> int:
    """Write such a file; returns its size in bytes."""
    save_file(eight_bit(tensors), path, metadata={"weights": "int8 and one scale an output"})
    return path.stat().st_size


def _is_matrix(key: str, tensor: Tensor) -> bool:
    return "_codebook." not in key and is_matrix(tensor)
