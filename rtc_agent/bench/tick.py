"""How long a tick takes: a stepper's whole step, from sound on the host to sound on the host.

Weights are random and of the released sizes, rings hold random numbers, and sessions draw with the
default settings, so that every part of a real tick is run.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from rtc_agent.bench.percentiles import Percentiles
from rtc_agent.bench.stages import StageTimes, Trace, stage_times, trace_tick
from rtc_agent.engine.lockstep import LockstepParts, LockstepStepper
from rtc_agent.engine.stepper import FRAME_SAMPLES, Mask, Pcm, SamplingSpec, SessionSpec
from rtc_agent.errors import RtcAgentError
from rtc_agent.model.backend import Backend
from rtc_agent.model.frame_model import FrameModel
from rtc_agent.model.temporal import TemporalTransformer

WINDOWS = ("full", "minute", "empty")
"""Where the measured ticks begin: with the ring full, 60 s into the call, at its start."""
_MINUTE = 750
_WARM_UP = 10
_GIB = 2**30


class BenchFailed(RtcAgentError):
    """What was to be measured did not run as it should."""

    code = "bench_failed"


@dataclass(frozen=True, slots=True)
class Openings:
    """Opening a session with a prompt, while all other slots are live and ticking."""

    frames: int
    """Positions of the prompt."""
    cold_ms: float
    """Its pieces together, never run before."""
    known_ms: float
    """Its pieces together, with the prompt kept from an earlier call."""
    piece_ms: float
    """The longest piece; a tick waits that long at most."""


@dataclass(frozen=True, slots=True)
class TickRow:
    """One measurement."""

    sessions: int
    window: str
    kv_dtype: str
    tick_ms: Percentiles
    floor_ms: float | None
    """Weights once and live keys and values once, at the rate of a device copy."""
    memory_gib: float
    """Taken of the device by this process, its libraries and largest temporaries included."""
    peak_gib: float
    """The most that this process took of it from the loading of the model on, as `memory_gib`; what
    measuring the copy rate takes is not in it."""
    stages_ms: StageTimes | None
    trace: Trace | None
    open: Openings | None = field(default=None)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class TickBench:
    """Measurements of one model on one device."""

    def __init__(
        self, parts: LockstepParts, backend: Backend, kv_dtype: str, *, ticks: int = 200
    ) -> None:
        self._parts, self._backend, self._kv = parts, backend, kv_dtype
        self._ticks = ticks
        self._device = parts.lm.device
        self._loading_peak = self._peak_reserved()
        self.copy_rate = copy_rate(self._device) if self._device.type == "cuda" else None
        """Bytes a second, read plus written, of a large copy on the device."""

    def rows(self, sessions: int, windows: Iterable[str]) -> Iterator[TickRow]:
        """Measure a number of sessions.

        Raises:
            BenchFailed: a session failed.
        """
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self._device)
        stepper = LockstepStepper(
            self._parts, sessions, backend=self._backend, prefix_bytes=self._prefix_bytes()
        )
        for slot in range(sessions):
            for _ in stepper.open(slot, SessionSpec("first", None, SamplingSpec(seed=slot))):
                pass
        for bank in stepper.banks:
            _fill(bank)
        rng = np.random.default_rng(0)
        pcm = rng.normal(scale=0.1, size=(sessions, FRAME_SAMPLES)).astype(np.float32)
        live = np.ones(sessions, np.bool_)
        for window in windows:
            self._place(stepper, window)
            times = self._time(stepper, pcm, live, self._ticks)
            stages = trace = None
            if self._device.type == "cuda":
                self._place(stepper, window)
                trace = trace_tick(lambda: stepper.step(pcm, live))
                stages = stage_times(stepper.banks[0])
            yield TickRow(
                sessions=sessions,
                window=window,
                kv_dtype=self._kv,
                tick_ms=Percentiles.of(times),
                floor_ms=self._floor_ms(stepper, window),
                memory_gib=round(self._taken() / _GIB, 2),
                peak_gib=round(self._peak() / _GIB, 2),
                stages_ms=stages,
                trace=trace,
                open=self._open(stepper, pcm, live) if window == "full" else None,
            )
        stepper.shutdown()

    def _place(self, stepper: LockstepStepper, window: str) -> None:
        """Put every row where the window says."""
        ring = self._parts.spec.lm.window
        at = {"full": ring, "minute": min(_MINUTE, ring), "empty": 0}[window]
        for bank in stepper.banks:
            place(bank, at)

    def _time(self, stepper: LockstepStepper, pcm: Pcm, live: Mask, ticks: int) -> list[float]:
        times = []
        for tick in range(_WARM_UP + ticks):
            sound = np.roll(pcm, tick * 77, axis=1)
            began = time.perf_counter()
            result = stepper.step(sound, live)
            times.append(1e3 * (time.perf_counter() - began))
            if result.failed:
                raise BenchFailed(f"sessions failed while measured: {dict(result.failed)}")
        return times[_WARM_UP:]

    def _open(self, stepper: LockstepStepper, pcm: Pcm, live: Mask) -> Openings:
        slot = stepper.slots - 1
        others = live.copy()
        others[slot] = False
        longest = 0.0

        def opened(voice: str) -> float:
            nonlocal longest
            stepper.close(slot)
            pieces = stepper.open(slot, SessionSpec(voice, None, SamplingSpec(seed=1)))
            total, more = 0.0, True
            while more:
                began = time.perf_counter()
                more = next(pieces, self) is not self
                piece = 1e3 * (time.perf_counter() - began)
                total, longest = total + piece, max(longest, piece)
                if others.any():
                    stepper.step(pcm, others)
            return total

        opened("second")
        longest = 0.0
        cold = [opened(voice) for voice in ("third", "fourth")]
        known = [opened(voice) for voice in ("third", "fourth", "third")]
        length = self._parts.spec.lm.window
        voices = self._parts.voices
        return Openings(
            frames=min(getattr(voices, "frames", 0), length),
            cold_ms=round(float(np.median(cold)), 2),
            known_ms=round(float(np.median(known)), 2),
            piece_ms=round(longest, 2),
        )

    def _floor_ms(self, stepper: LockstepStepper, window: str) -> float | None:
        if self.copy_rate is None:
            return None
        spec = self._parts.spec.lm
        weights = read_bytes(self._parts)
        held = {"full": spec.window, "minute": min(_MINUTE, spec.window), "empty": 0}[window]
        state = stepper.banks[0].lm.state.temporal
        position = 2 * spec.num_layers * spec.num_heads * (spec.head_dim * state.keys.itemsize)
        if state.scales is not None:
            position += 2 * spec.num_layers * spec.num_heads * 4
        read = weights + stepper.slots * held * position
        return round(float(1e3 * read / self.copy_rate), 2)

    def _prefix_bytes(self) -> int:
        """Room for the two prompts that are opened again once they are known."""
        temporal = TemporalTransformer(self._parts.spec.lm, self._parts.lm)
        return 2 * temporal.prefix_nbytes(getattr(self._parts.voices, "frames", 0))

    def _peak_reserved(self) -> int:
        if self._device.type != "cuda":
            return 0
        return int(torch.cuda.max_memory_reserved(self._device))

    def _peak(self) -> int:
        if self._device.type != "cuda":
            return 0
        beside = self._taken() - int(torch.cuda.memory_reserved(self._device))
        return beside + max(self._loading_peak, self._peak_reserved())

    def _taken(self) -> int:
        if self._device.type != "cuda":
            return 0
        free, total = torch.cuda.mem_get_info(self._device)
        return int(total - free)


def read_bytes(parts: LockstepParts) -> int:
    """Bytes of the weights that every tick reads whole; embeddings are looked up."""
    lm, mimi = parts.lm, parts.mimi
    used: list[object] = [lm.layers, lm.text_linear, lm.dep_in, lm.dep_layers, lm.dep_heads, mimi]
    return sum(_tensor_bytes(value) for value in used)


def _tensor_bytes(value: object) -> int:
    if isinstance(value, torch.Tensor):
        return int(value.nbytes)
    if isinstance(value, tuple | list):
        return sum(map(_tensor_bytes, value))
    fields = getattr(value, "__dataclass_fields__", ())
    return sum(_tensor_bytes(getattr(value, name)) for name in fields)


def place(bank: FrameModel, position: int) -> None:
    """Let every row of a bank be at a position, whatever its state holds."""
    with torch.inference_mode():
        for at in (bank.lm.state.position, bank.hearing.position, bank.speaking.position):
            at.fill_(position)


def copy_rate(device: torch.device) -> float:
    """Bytes a second, read plus written, of a large copy on a device."""
    # Far more than a cache holds, and no more than stands free beside a model on a small card.
    size = min(2 * _GIB, int(torch.cuda.mem_get_info(device)[0]) // 4)
    source = torch.empty(size, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    best = 0.0
    for _ in range(8):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        target.copy_(source)
        ended.record()
        torch.cuda.synchronize(device)
        best = max(best, 2 * source.nbytes / (began.elapsed_time(ended) / 1e3))
    return best


def _fill(bank: FrameModel) -> None:
    """Random numbers in the rings: zeros would be read, and perhaps powered, differently."""
    state = bank.lm.state.temporal
    with torch.inference_mode():
        for ring in (state.keys, state.values):
            for layer in ring:
                if layer.dtype == torch.int8:
                    layer.random_(-127, 128)
                else:
                    layer.normal_()
        for scales in state.scales or ():
            scales.fill_(1 / 64)
