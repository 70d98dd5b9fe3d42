"""Whether a model fits before it is loaded, and what to change if it does not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rtc_agent.errors import NotEnoughMemory
from rtc_agent.model.quantised import GROUP, WeightFormat
from rtc_agent.model.spec import CODEBOOKS, DEPFORMER_STEPS, LmSpec, ModelSpec

_FLOAT32 = 4
_FLOAT16 = 2
_DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
_ROW_BYTES = 12 << 20
"""A session beside its rings, at the released sizes: codec activations 8 MiB at their peak, logits
and noise 3 MiB, the state of the codec's convolutions 0.2 MiB."""
_RUNTIME_BYTES = {"cuda": 1 << 30, "cpu": 256 << 20}
"""What a device's libraries take before any model is there."""


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes that a model takes on its device."""

    dtype: str
    kv_dtype: str
    """int8, or what `dtype` says."""
    weights: int
    """Language model; the depformer steps that are not run are not loaded."""
    codec: int
    session: int
    """What each session holds: keys and values, codec state, activations."""
    fixed: int
    """Libraries and workspace, however many sessions there are."""

    def total(self, sessions: int) -> int:
        return self.weights + self.codec + self.fixed + sessions * self.session

    def sessions_in(self, free: int) -> int:
        """How many sessions fit into `free` bytes; 0 if not even the model does."""
        return max(0, (free - self.total(0)) // self.session)


def memory_need(
    spec: ModelSpec,
    dtype: str,
    device_type: str,
    *,
    prefix_bytes: int = 0,
    kv_dtype: str = "model",
    form: WeightFormat = "model",
    banks: int = 1,
) -> MemoryNeed:
    """What a model of these sizes takes.

    Args:
        dtype: of weights, keys and values: float32, bfloat16 or float16; the codec is float32.
        device_type: cuda or cpu.
        prefix_bytes: most that prompts kept for the next caller may take.
        kv_dtype: int8, or anything else for keys and values of `dtype`.
        form: of the transformers' matrices.
        banks: equal parts of the sessions; on a GPU each lays the codec's weights out for itself.
    """
    size, lm, mimi = _DTYPES[dtype], spec.lm, spec.mimi
    # The ring's keys and values; then the codec's, of its two transformers.
    position = lm.dim * size
    if kv_dtype == "int8":
        position = lm.dim + _FLOAT32 * lm.num_heads
    ring = 2 * lm.num_layers * lm.window * position
    codec_ring = 2 * 2 * mimi.transformer_layers * mimi.transformer_window * mimi.dimension
    used_mimi = replace(mimi, n_q_total=CODEBOOKS)
    codec = _FLOAT32 * sum(map(math.prod, used_mimi.shapes().values()))
    further = (banks - 1) * codec if device_type == "cuda" else 0
    return MemoryNeed(
        dtype=dtype,
        weights=_lm_bytes(lm, size, form),
        codec=codec,
        session=ring + _FLOAT32 * codec_ring + _ROW_BYTES,
        kv_dtype=kv_dtype,
        fixed=_RUNTIME_BYTES[device_type] + prefix_bytes + further,
    )


def require_memory(
    spec: ModelSpec,
    dtype: str,
    sessions: int,
    *,
    device: str,
    free: int,
    prefix_bytes: int = 0,
    kv_dtype: str = "model",
    form: WeightFormat = "model",
    banks: int = 1,
) -> MemoryNeed:
    """Refuse what would not fit, before anything is loaded.

    Args:
        device: cpu, cuda, cuda:1 …
        free: bytes free there, see `free_memory`.

    Raises:
        NotEnoughMemory: with need, free, and the flag that makes it fit.
    """
    kind = device.partition(":")[0]

    def needed(dtype: str, kv_dtype: str, form: WeightFormat) -> MemoryNeed:
        return memory_need(
            spec,
            dtype,
            kind,
            prefix_bytes=prefix_bytes,
            kv_dtype=kv_dtype,
            form=form,
            banks=banks,
        )

    def room(need: MemoryNeed) -> int:
        return need.sessions_in(free) // banks * banks

    need = needed(dtype, kv_dtype, form)
    total = need.total(sessions)
    if total <= free:
        return need
    least, advice = need, ""
    if fitting := room(need):
        advice = f"--sessions {fitting} fits."
        narrow = needed(dtype, "int8", form)
        if kind == "cuda" and (most := room(narrow)) > fitting:
            advice = f"--sessions {fitting} fits, with --kv-dtype int8 {min(most, sessions)} do."
    elif _DTYPES[dtype] > _DTYPES["bfloat16"]:
        least = needed("bfloat16", kv_dtype, form)
        if fitting := min(sessions, room(least)):
            advice = f"--dtype bfloat16 --sessions {fitting} fits."
    if not advice and kind == "cuda":
        for narrower in _narrower(form):
            if fitting := min(sessions, room(needed(dtype, kv_dtype, narrower))):
                advice = f"--weights {narrower} --sessions {fitting} fits."
                break
    if not advice:
        advice = (
            f"One session needs {_gib(least.total(1))} in {least.dtype}; choose another --device, "
            "or --agent tiny or echo."
        )
    one = sessions == 1
    raise NotEnoughMemory(
        f"{sessions} {'session' if one else 'sessions'} in {dtype} {'needs' if one else 'need'} "
        f"{_gib(total)} on {device} "
        f"(weights {_gib(need.weights + need.codec)}, each session {_gib(need.session)}, "
        f"workspace {_gib(need.fixed)}) and {_gib(free)} are free. {advice}"
    )


def _narrower(form: WeightFormat) -> tuple[WeightFormat, ...]:
    forms: tuple[WeightFormat, ...] = ("model", "int8", "int4")
    return forms[forms.index(form) + 1 :]


def _lm_bytes(lm: LmSpec, size: int, form: WeightFormat) -> int:
    total = 0
    for key, shape in lm.shapes(DEPFORMER_STEPS).items():
        count, columns = math.prod(shape), shape[-1]
        matrix = key.startswith(("transformer.", "depformer.", "depformer_in.", "linears."))
        if form == "model" or not matrix or key.endswith("alpha"):
            total += size * count
        elif form == "int8" or not key.startswith("transformer."):
            total += count + _FLOAT32 * (count // columns)
        else:
            total += count // 2 + _FLOAT16 * (count // GROUP)
    return total


def free_memory(device: Any) -> int:
    """Bytes free on a `torch.device`, for this process: on a CPU what the system or the container
    still gives."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    return min(_system_free(), _container_free())


def _system_free(meminfo: Path = Path("/proc/meminfo")) -> int:
    for line in meminfo.read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def _container_free(group: Path = Path("/sys/fs/cgroup")) -> int:
    """Room under a cgroup v2 limit; without one, no bound."""
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 1 << 62
    return (1 << 62) if limit == "max" else max(0, int(limit) - used)


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 100 << 20 else f"{count / 2**20:.1f} MiB"
