"""From a folder of model files to a stepper that is ready to take calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch

from rtc_agent.config import Settings
from rtc_agent.engine.agents import Choice, Report
from rtc_agent.engine.banked import BankedStepper, MeasurableBanks
from rtc_agent.engine.capacity import BUDGET_MS, fitting_stepper, lowered_notice, tick_times
from rtc_agent.engine.devices import choose_device, usual_dtype
from rtc_agent.engine.lockstep import LockstepParts, LockstepStepper
from rtc_agent.engine.mirror import MirrorStepper
from rtc_agent.engine.prefix_cache import PrefixCache
from rtc_agent.engine.random_model import random_model
from rtc_agent.engine.stages.connect import connect
from rtc_agent.engine.stages.stepper import StagedStepper
from rtc_agent.engine.stepper import REFERENCE_DRAWS, Draws, FrameStepper
from rtc_agent.engine.tiny import tiny_model
from rtc_agent.model.backend import Backend, backend_for
from rtc_agent.model.checkpoint import Progress, load_lm, load_mimi
from rtc_agent.model.detokenizer import Detokenizer, piece_table
from rtc_agent.model.folder import Domain, ModelFolder
from rtc_agent.model.memory_plan import free_memory, require_memory
from rtc_agent.model.spec import MOSHI, PERSONAPLEX, ModelSpec
from rtc_agent.model.voices import VoiceLibrary

PREFIX_BYTES = 2 * 2**30
"""Most that prompts kept for later callers may take on a GPU; less on a small one."""
CPU_PREFIX_BYTES = 256 * 2**20
_CPU_TICKS = 12
"""Timed to learn how many sessions a processor keeps up with: a second or so at most."""
_CPU_SHARE = 0.75
"""Of a tick that sessions may take on a processor, which has media to do as well."""

_DESCRIPTIONS = {
    "personaplex": "PersonaPlex: listens while it speaks, in the voice and persona you choose.",
    "moshi": "Moshi: listens while it speaks.",
}
_DEMO_DRAWS = Draws(text_temperature=0.4, audio_temperature=0.4)
"""A model this small errs at the reference's temperatures: it is right in 93 % instead of 98 %."""
_DEMO = (
    "A toy of PersonaPlex's own kind, small enough for one processor core: it knows {kinds} kinds "
    "of questions{examples}. The real one takes a GPU and its weights: rtc-agent download "
    "personaplex."
)
_SHOWN_EXAMPLES = 4

AnyStepper = LockstepStepper | StagedStepper | MeasurableBanks[LockstepStepper]
S = TypeVar("S", bound=AnyStepper)


def tiny_stepper(settings: Settings) -> AnyStepper:
    """The tiny agent: random weights of a fixed seed."""
    device = _talker_device(settings)
    _set_cpu_threads(settings, device)
    parts, backend = tiny_model(device=device), _backend(settings, device)
    return _stepper(settings, parts, None, settings.sessions, CPU_PREFIX_BYTES, backend)


def mirror_stepper(settings: Settings, report: Report, live: bool) -> tuple[FrameStepper, str]:
    """The mirror over random weights: of the released sizes on a GPU, of tiny ones elsewhere.

    Raises:
        ConfigError, NotEnoughMemory: as `folder_stepper`.
    """
    device = _talker_device(settings)
    _set_cpu_threads(settings, device)
    backend = _backend(settings, device)
    if device.type == "cpu":
        parts = random_model(device, torch.float32, tiny=True)
        model = _stepper(settings, parts, None, settings.sessions, CPU_PREFIX_BYTES, backend)
        return _mirrored(model), ""
    spec = ModelSpec.released()
    dtype, prefix_bytes = _room(settings, device, spec)
    report("drawing random weights of the released sizes")
    parts = random_model(device, dtype, tiny=False, form=settings.weights)

    def make(sessions: int) -> AnyStepper:
        report(_preparing(sessions))
        return _stepper(settings, parts, None, sessions, prefix_bytes, backend)

    stepper, notice = _fitting(settings, make, report, live)
    return _mirrored(stepper), notice


def _mirrored(model: AnyStepper) -> FrameStepper:
    if isinstance(model, MeasurableBanks):
        banks = iter(model.banks)
        return BankedStepper(
            lambda _: MirrorStepper(next(banks)),
            model.slots,
            len(model.banks),
            row_by_row=model.row_by_row,
        )
    return MirrorStepper(model)


def _stepper(
    settings: Settings,
    parts: LockstepParts,
    model: Path | None,
    slots: int,
    prefix_bytes: int,
    backend: Backend,
) -> AnyStepper:
    """One stage or two, one bank or several, as the settings say."""
    stages = settings.stages
    if settings.banks > 1:
        prefixes = PrefixCache(prefix_bytes)
        return MeasurableBanks(
            lambda rows: LockstepStepper(parts, rows, prefixes=prefixes, backend=backend),
            slots,
            settings.banks,
            row_by_row=parts.lm.device.type == "cpu",
        )
    if stages is None:
        return LockstepStepper(parts, slots, prefix_bytes=prefix_bytes, backend=backend)
    return StagedStepper(
        replace(parts, mimi=parts.mimi.encoder_half()),
        slots,
        stages,
        partial(connect, settings, stages, str(parts.lm.device), model, slots),
        prefix_bytes=prefix_bytes,
        backend=backend,
    )


def _talker_device(settings: Settings) -> torch.device:
    talker = settings.stages.talker.device if settings.stages is not None else None
    return choose_device(talker or settings.device)


def folder_stepper(
    settings: Settings, path: Path, agent: str, report: Report, live: bool = True
) -> tuple[AnyStepper, str]:
    """The stepper over a folder's weights, and what a person should know about it.

    On a GPU it is for no more sessions than the GPU is measured to keep up with; if it is not for
    live calls, for one at least.

    Raises:
        ConfigError, CheckpointError, NotEnoughMemory: what is wrong and what to change.
        StageFailed: code2wav is to run apart, and cannot.
    """
    folder = _Folder.read(settings, path, agent, report)

    def make(sessions: int) -> AnyStepper:
        report(_preparing(sessions))
        return folder.stepper(settings, sessions)

    if folder.parts.lm.device.type == "cpu":
        return make(settings.sessions), ""
    return _fitting(settings, make, report, live)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder's weights, read, for any number of steppers over them."""

    path: Path
    parts: LockstepParts
    backend: Backend
    prefix_bytes: int

    @classmethod
    def read(cls, settings: Settings, path: Path, agent: str, report: Report) -> _Folder:
        device = _talker_device(settings)
        _set_cpu_threads(settings, device)
        backend = _backend(settings, device)
        folder = ModelFolder.open(path, family=MOSHI if agent == "moshi" else PERSONAPLEX)
        dtype, prefix_bytes = _room(settings, device, folder.spec)
        text = folder.text_model()
        table = piece_table(text, hidden=folder.spec.lm.unshown_text)
        demo = agent == "demo"
        parts = LockstepParts(
            spec=folder.spec,
            lm=load_lm(
                folder.lm,
                folder.spec.lm,
                device=device,
                dtype=dtype,
                form=settings.weights,
                progress=_by_tenths(report, "language model"),
            ),
            mimi=load_mimi(
                folder.codec, folder.spec.mimi, device=device, progress=_by_tenths(report, "codec")
            ),
            text_encoder=text,
            text_stream=lambda: Detokenizer(table),
            voices=VoiceLibrary(path, folder.spec),
            agent=agent,
            description=_demo_description(folder.domain) if demo else _DESCRIPTIONS[agent],
            names=None if folder.domain is None else folder.domain.names,
            draws=_DEMO_DRAWS if demo else REFERENCE_DRAWS,
        )
        return cls(path, parts, backend, prefix_bytes)

    def stepper(self, settings: Settings, sessions: int) -> AnyStepper:
        return _stepper(settings, self.parts, self.path, sessions, self.prefix_bytes, self.backend)


def _room(settings: Settings, device: torch.device, spec: ModelSpec) -> tuple[torch.dtype, int]:
    """The weights' dtype, and the bytes for kept prompts, once all is known to fit.

    Raises:
        NotEnoughMemory: with the flag that makes it fit.
    """
    dtype = settings.dtype if settings.dtype != "auto" else usual_dtype(device)
    free = free_memory(device)
    prefix_bytes = min(PREFIX_BYTES, free // 32) if device.type == "cuda" else CPU_PREFIX_BYTES
    require_memory(
        spec,
        dtype,
        settings.sessions,
        device=str(device),
        free=free,
        prefix_bytes=prefix_bytes,
        kv_dtype=settings.kv_dtype,
        form=settings.weights,
        banks=settings.banks,
    )
    wide: torch.dtype = getattr(torch, dtype)
    return wide, prefix_bytes


def _fitting(
    settings: Settings, make: Callable[[int], S], report: Report, live: bool
) -> tuple[S, str]:
    """As many sessions as asked for, or as the GPU keeps up with, and what to say of that."""
    stepper, times = fitting_stepper(make, settings.sessions, banks=settings.banks, live=live)
    stepper.full_tick = times
    what = "a full tick" if settings.banks == 1 else f"a full step of all {settings.banks} banks"
    report(f"{what} takes {times.p50:.1f} ms, {times.p99:.1f} at the 99th percentile")
    return stepper, lowered_notice(settings.sessions, times)


def affordable_stepper(settings: Settings, path: Path, agent: str, report: Report) -> Choice:
    """As `folder_stepper`, on a processor, for no more sessions than it keeps up with.

    Rows are computed one after another there, so one that is timed tells what any number takes.
    """
    asked = settings.sessions
    one = settings.model_copy(update={"sessions": 1, "banks": 1})
    folder = _Folder.read(one, path, agent, report)
    report(_preparing(1))
    stepper = folder.stepper(one, 1)
    times = tick_times(stepper, ticks=_CPU_TICKS)
    fitting = max(1, min(asked, int(BUDGET_MS * _CPU_SHARE / times.p50)))
    banks = min(settings.banks, fitting)
    notices = []
    too_slow = times.p50 > BUDGET_MS
    if too_slow:
        notices.append(
            f"Not in real time: a step takes this processor {times.p50:.0f} ms, and "
            f"{BUDGET_MS:.0f} are there. Choose a faster one, or --agent tiny or echo."
        )
    if banks < settings.banks:
        calls = "one call" if fitting == 1 else f"{fitting} calls"
        notices.append(
            f"Banks: {banks} instead of {settings.banks}, for this processor keeps up with {calls} "
            f"at once. --sessions {settings.banks} makes them all, which may be too slow."
        )
    notice = " ".join(notices)
    if fitting == 1:
        return Choice(stepper, notice, too_slow)
    stepper.shutdown()
    some = settings.model_copy(update={"sessions": fitting // banks * banks, "banks": banks})
    _room(some, folder.parts.lm.device, folder.parts.spec)
    return Choice(folder.stepper(some, some.sessions), notice, too_slow)


def _preparing(sessions: int) -> str:
    return "preparing one session" if sessions == 1 else f"preparing {sessions} sessions"


def _demo_description(domain: Domain | None) -> str:
    if domain is None:
        return _DEMO.format(kinds="a few", examples="")
    shown = (question.removesuffix(".") for question in domain.examples[:_SHOWN_EXAMPLES])
    examples = ", ".join(f"“{question}”" for question in shown)
    return _DEMO.format(kinds=domain.kinds, examples=f", such as {examples}" if examples else "")


def _backend(settings: Settings, device: torch.device) -> Backend:
    return backend_for(device, kernels=settings.kernels == "auto", kv=settings.kv_dtype)


def _by_tenths(report: Report, what: str) -> Progress:
    """Progress as few lines, however many tensors there are."""
    told = -1

    def progress(done: int, total: int) -> None:
        nonlocal told
        tenth = 10 * done // max(total, 1)
        if tenth > told:
            told = tenth
            report(f"loading the {what}: {10 * tenth} %")

    return progress


def _set_cpu_threads(settings: Settings, device: torch.device) -> None:
    # More threads than one cost a small model more in waiting than they bring.
    if device.type == "cpu":
        torch.set_num_threads(settings.cpu_threads)
