"""Where a tick on a GPU spends its time: by stage, and as its launches were seen by the device."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

from rtc_agent.model.frame_model import FrameModel

_REPLAYS = 30


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Milliseconds of each stage run alone, p50; they overlap a little where they follow."""

    encode: float
    temporal: float
    depformer: float
    """With all nine draws."""
    decode: float


@dataclass(frozen=True, slots=True)
class Trace:
    """One tick as the device recorded it."""

    kernels: int
    """Kernels run."""
    copies: int
    """Copies between host and device."""
    graph_launches: int
    """What the host asked for: one launch of the graph, or every kernel for itself."""
    host_syncs: int
    """Times that the host waits for the device."""
    busy: float
    """Share of the time from the first to the last of them in which at least one ran."""


def stage_times(bank: FrameModel) -> StageTimes | None:
    """The stages of a bank of our kernels, each as a graph of its own; None for another bank."""
    from rtc_agent.model.cuda.capture import capture
    from rtc_agent.model.cuda.model import CudaFrameModel

    if not isinstance(bank, CudaFrameModel):
        return None
    frame, device = bank.frame, bank.lm.weights.device
    how = frame.how

    def timed(launch: Callable[[], None]) -> float:
        graph = capture(launch, device)
        times = []
        for _ in range(_REPLAYS):
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            graph.replay()
            ended.record()
            torch.cuda.synchronize(device)
            times.append(began.elapsed_time(ended))
        return round(float(sorted(times)[_REPLAYS // 2]), 3)

    return StageTimes(
        encode=timed(lambda: frame.encoder.launch(frame.live, how)),
        temporal=timed(lambda: frame.lm.launch_temporal(how)),
        depformer=timed(lambda: frame.lm.launch_draws(how)),
        decode=timed(lambda: frame.decoder.launch(frame.lm.speaking, how)),
    )


def trace_tick(tick: Callable[[], object]) -> Trace:
    """Record one tick."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    tick()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            tick()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    # Every wait is warned of, the one that a tick asks for at its end among them.
    waits = sum("called a synchronizing" in str(w.message) for w in warned)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        tick()
        torch.cuda.synchronize()
    events = list(recorded.events())
    asked = sum(e.name in _LAUNCHES for e in events if e.device_type == DeviceType.CPU)
    ran = sorted(
        (e.time_range.start, e.time_range.end, e.name)
        for e in events
        if e.device_type == DeviceType.CUDA
    )
    busy, reached = 0.0, ran[0][0]
    for start, end, _ in ran:
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    copies = sum("Memcpy" in name and "DtoD" not in name for _, _, name in ran)
    return Trace(
        kernels=len(ran) - copies,
        copies=copies,
        graph_launches=asked,
        host_syncs=waits,
        busy=round(busy / max(reached - ran[0][0], 1e-9), 3),
    )


_LAUNCHES = frozenset(
    {"cudaGraphLaunch", "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernelEx"}
)
