"""Who computes the model: plain torch, or our kernels on a GPU. The tick itself never asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from rtc_agent.errors import ConfigError
from rtc_agent.model.code2wav import Code2WavModel
from rtc_agent.model.codec import FrameDecoder, FrameEncoder
from rtc_agent.model.frame_model import FrameModel
from rtc_agent.model.lm import LanguageModel
from rtc_agent.model.mimi import MimiDecoder, MimiEncoder
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import LmSpec, MimiSpec, ModelSpec
from rtc_agent.model.talker import TalkerModel
from rtc_agent.model.weights import LmWeights

KvDtype = Literal["auto", "model", "int8"]
"""Of keys and values: auto and model are the weights' own."""


@dataclass(frozen=True, slots=True)
class Backend:
    """Makers of the model and of its parts, each for a number of rows."""

    frame_model: Callable[[ModelSpec, LmWeights, MimiWeights, int], FrameModel]
    language_model: Callable[[LmSpec, LmWeights, int], LanguageModel]
    talker: Callable[[ModelSpec, LmWeights, MimiWeights, int], TalkerModel]
    code2wav: Callable[[ModelSpec, MimiWeights, int], Code2WavModel]
    encoder: Callable[[MimiSpec, MimiWeights, int], FrameEncoder]
    decoder: Callable[[MimiSpec, MimiWeights, int], FrameDecoder]
    max_rows: int
    """Rows that one model takes at most."""


TORCH = Backend(
    FrameModel,
    LanguageModel,
    TalkerModel,
    Code2WavModel,
    MimiEncoder,
    MimiDecoder,
    max_rows=1024,
)
"""Plain torch operations, on any device."""


def backend_for(device: torch.device, *, kernels: bool = True, kv: KvDtype = "auto") -> Backend:
    """The backend of a device.

    Args:
        kernels: on a GPU, our kernels and one captured graph a tick, rather than plain torch.

    Raises:
        KernelsUnavailable: this GPU or installation cannot run them.
        ConfigError: `kv` needs the kernels.
    """
    if device.type != "cuda" or not kernels:
        if kv == "int8":
            raise ConfigError(
                "8-bit keys and values need the model's GPU kernels: "
                "--device cuda and --kernels auto, or --kv-dtype model."
            )
        return TORCH
    from rtc_agent.model.cuda.support import require_kernels

    require_kernels(device)
    from rtc_agent.model.cuda.code2wav import CudaCode2WavModel
    from rtc_agent.model.cuda.codec import CudaDecoder, CudaEncoder
    from rtc_agent.model.cuda.language_model import CudaLanguageModel
    from rtc_agent.model.cuda.limits import MAX_ROWS
    from rtc_agent.model.cuda.model import CudaFrameModel
    from rtc_agent.model.cuda.talker import CudaTalkerModel

    kv_dtype = torch.int8 if kv == "int8" else None
    return Backend(
        partial(CudaFrameModel, kv_dtype=kv_dtype),
        partial(CudaLanguageModel, kv_dtype=kv_dtype),
        partial(CudaTalkerModel, kv_dtype=kv_dtype),
        CudaCode2WavModel,
        CudaEncoder,
        CudaDecoder,
        max_rows=MAX_ROWS,
    )
