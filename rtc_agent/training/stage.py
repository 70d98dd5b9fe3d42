"""Running one stage of training: resumed where it was, watched, stopped when it fails."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from rtc_agent.errors import CheckpointError, TrainingFailed
from rtc_agent.training.budget import Budget, Every
from rtc_agent.training.slim import read_slim, slim_files

Report = Callable[[str], None]

PATIENCE = 4
"""Reports in a row with one and the same alarm that end a run."""


@dataclass(frozen=True, slots=True)
class Findings:
    """How training stands."""

    figures: Mapping[str, float | Sequence[float]]
    alarms: Sequence[str] = ()
    """What would make going on useless, in words."""


class Trainer(Protocol):
    """What a stage does."""

    name: str

    def step(self, progress: float) -> None:
        """Learn from one batch.

        Args:
            progress: of the stage, 0 to 1.
        """
        ...

    def findings(self, progress: float) -> Findings:
        """Losses of late and a small validation. Changes nothing, the sources of chance least."""
        ...

    def state(self) -> dict[str, Any]:
        """All that a resumed run needs to go on as this one would have: tensors and numbers."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave.

        Raises:
            KeyError: it is weights alone, and this stage needs more.
        """
        ...


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds of training between what is not training."""

    report_s: float = 15.0
    save_s: float = 120.0


def run_stage(
    trainer: Trainer,
    budget: Budget,
    checkpoint: Path,
    report: Report,
    intervals: Intervals = Intervals(),
) -> bool:
    """Train until the stage or this run of it is over.

    Returns:
        Whether the stage is done.

    Raises:
        TrainingFailed: losses are no numbers any more, or an alarm does not end.
    """
    step = _resume(trainer, budget, checkpoint)
    if step:
        report(f"{trainer.name}: goes on at step {step}, {budget.spent:.0f} s in")
    if budget.over:
        return True
    reporting, saving = Every(intervals.report_s, budget), Every(intervals.save_s, budget)
    saving.due()
    watch = _Watch()
    budget.start()
    while not budget.stopped:
        trainer.step(budget.progress)
        step += 1
        budget.lap()
        if reporting.due():
            findings = trainer.findings(budget.progress)
            report(_line(trainer.name, step, budget, findings))
            watch.see(trainer.name, findings)
            # What was found belongs to no step; it is left out of the time that steps take.
            budget.start()
        if saving.due():
            _save(trainer, budget, checkpoint, step)
            budget.start()
    findings = trainer.findings(budget.progress)
    report(_line(trainer.name, step, budget, findings))
    watch.see(trainer.name, findings)
    _save(trainer, budget, checkpoint, step)
    return budget.over


class _Watch:
    """Counts how long each alarm has been on."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def see(self, name: str, findings: Findings) -> None:
        for figure, value in findings.figures.items():
            values = value if isinstance(value, Sequence) else [value]
            if not all(math.isfinite(v) for v in values):
                raise TrainingFailed(f"{name}: {figure} is no number any more.")
        self._seen = Counter({alarm: self._seen[alarm] + 1 for alarm in findings.alarms})
        for alarm, times in self._seen.items():
            if times >= PATIENCE:
                raise TrainingFailed(f"{name}: {alarm}, in {times} reports one after another.")


def _line(name: str, step: int, budget: Budget, findings: Findings) -> str:
    def text(value: float | Sequence[float]) -> str:
        if isinstance(value, Sequence):
            return "/".join(text(v) for v in value)
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"

    figures = " ".join(f"{key} {text(value)}" for key, value in findings.figures.items())
    alarms = "".join(f" ALARM: {alarm}" for alarm in findings.alarms)
    return f"{name} {step} {budget.spent:.0f}/{budget.seconds:.0f}s {figures}{alarms}"


def _resume(trainer: Trainer, budget: Budget, checkpoint: Path) -> int:
    """The step to go on at; 0 where there is no checkpoint."""
    if not has_state(checkpoint):
        return 0
    state = read_state(checkpoint)
    budget.spent = float(state["spent"])
    if not budget.over:
        try:
            trainer.restore(state["trainer"])
        except KeyError as error:
            raise CheckpointError(
                f"{trainer.name} cannot go on from its weights alone: {error} is missing."
            ) from error
    return int(state["step"])


def has_state(checkpoint: Path) -> bool:
    """Whether there is one, or files of weights that stand in for it."""
    return checkpoint.exists() or bool(slim_files(checkpoint))


def _save(trainer: Trainer, budget: Budget, checkpoint: Path, step: int) -> None:
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    part = checkpoint.with_name(checkpoint.name + ".part")
    torch.save({"trainer": trainer.state(), "spent": budget.spent, "step": step}, part)
    os.replace(part, checkpoint)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """What `run_stage` saved, or what `rtc_agent.training.slim` left of it, on the CPU.

    Raises:
        CheckpointError: there is nothing, or it is damaged.
    """
    if not checkpoint.exists() and slim_files(checkpoint):
        return read_slim(checkpoint)
    try:
        state: dict[str, Any] = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(
            f"{checkpoint} does not exist; run the stage before this one."
        ) from None
    except Exception as error:
        raise CheckpointError(f"{checkpoint} cannot be read: {error}") from error
    return state
