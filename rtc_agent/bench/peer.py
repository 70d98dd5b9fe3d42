"""Kyutai's `moshi` package on the same device, where it is installed: encode, step, decode.

The same sizes with random weights and an eight-step depformer, one frame in and one out, to the
host and back. It draws greedily, which spares it the draws that ours are measured with.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import time
from dataclasses import dataclass
from typing import Any

import torch

from rtc_agent.bench.percentiles import Percentiles
from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.model.spec import CODEBOOKS

_WARM_UP = 20


@dataclass(frozen=True, slots=True)
class PeerRow:
    """One measurement of another implementation."""

    peer: str
    sessions: int
    tick_ms: Percentiles


def moshi_version() -> str | None:
    """The version that can be measured here; None if there is none."""
    if importlib.util.find_spec("moshi") is None:
        return None
    try:
        return importlib.metadata.version("moshi")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def measure_moshi(
    sessions: int, ticks: int, device: torch.device, lm_kwargs: dict[str, Any] | None = None
) -> PeerRow:
    """Time whole ticks of the package.

    Args:
        lm_kwargs: other sizes than its own.
    """
    models: Any = importlib.import_module("moshi.models")
    loaders = models.loaders
    sizes = dict(loaders._lm_kwargs) | (lm_kwargs or {})
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    lm = loaders.get_moshi_lm(None, lm_kwargs=sizes, device=device, dtype=dtype)
    lm.eval()
    codec = loaders.get_mimi(None, device=device)
    codec.set_num_codebooks(CODEBOOKS)
    for weight in lm.parameters():
        weight.data.normal_(0.0, 0.02)
    generator = models.LMGen(lm, use_sampling=False)
    sound = (torch.randn(sessions, 1, FRAME_SAMPLES) / 10).numpy()
    times = []
    with torch.no_grad(), codec.streaming(sessions), generator.streaming(sessions):
        for _ in range(_WARM_UP + ticks):
            began = time.perf_counter()
            codes = codec.encode(torch.from_numpy(sound).to(device))
            tokens = generator.step(codes)
            if tokens is not None:
                codec.decode(tokens[:, 1:]).cpu()
                tokens[:, 0].tolist()
            times.append(1e3 * (time.perf_counter() - began))
    return PeerRow(f"moshi {moshi_version()}", sessions, Percentiles.of(times[_WARM_UP:]))
