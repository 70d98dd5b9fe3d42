"""How long a step of the language model takes, as it is and compiled, and which is to be used.

    python probe.py DATA OUT LOGS plain
    python probe.py DATA OUT LOGS compiled

The second writes LOGS/mode, an option of `rtc-agent train-demo`: compiled only where it is faster
and finds the same loss. A profile of a few steps of each goes to LOGS/profile-….txt.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from rtc_agent.training.data.archive import DemoData
from rtc_agent.training.data.augment import Line
from rtc_agent.training.lm_training import LmRun, LmTrainer
from rtc_agent.training.pipeline import Pipeline, Runs, Seconds

WARM, TIMED, PROFILED = 5, 30, 4
SAME = 0.02
"""Relative difference of losses in bfloat16 that is none."""


def main(data: Path, out: Path, logs: Path, mode: str) -> None:
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    compiler = "inductor" if mode == "compiled" else None
    run = LmRun(first=1, every=1 << 30, compiler=compiler, validation=8)
    if device.type == "cpu":
        run = replace(run, batch=2, made_at_once=2, validation=1)
    pipeline = Pipeline(
        out,
        DemoData(data, stock=256),
        Line(),
        device,
        print,
        seconds=Seconds(codec=1),
        runs=Runs(lm=run),
    )
    trainer = pipeline.lm_trainer()
    took = _timed(lambda: trainer.step(0.0))
    found: dict[str, float] = {"first_step_s": took, "loss": float(trainer.last.total)}
    warm, timed, profiled = (WARM, TIMED, PROFILED) if device.type == "cuda" else (1, 1, 1)
    _timed(lambda: [trainer.step(0.0) for _ in range(warm)])
    found["ms"] = 1e3 * _timed(lambda: [trainer.step(0.0) for _ in range(timed)]) / timed
    if mode == "plain":
        found |= _beside(trainer)
    print(mode, {name: round(value, 3) for name, value in found.items()}, flush=True)
    (logs / f"probe-{mode}.json").write_text(json.dumps(found))
    if mode == "compiled":
        plain = json.loads((logs / "probe-plain.json").read_text())
        apart = abs(found["loss"] / plain["loss"] - 1)
        better = found["ms"] < 0.95 * plain["ms"] and apart < SAME
        (logs / "mode").write_text("--compile" if better else "--no-compile")
        print(f"losses {apart:.4f} apart; {'compiled' if better else 'as it is'}", flush=True)
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as seen:
        _timed(lambda: [trainer.step(0.0) for _ in range(profiled)])
    averages = seen.key_averages()
    orders = ("self_device_time_total", "self_cpu_time_total")
    tables = [averages.table(sort_by=o, row_limit=40, max_name_column_width=70) for o in orders]
    (logs / f"profile-{mode}.txt").write_text("\n".join(tables))


def _beside(trainer: LmTrainer) -> dict[str, float]:
    """Seconds of what is not learning: encoding a batch of conversations, and looking how it is."""
    batch = trainer._source.batch(trainer._run.batch, np.random.default_rng(1))
    chance = trainer._chance

    def encode() -> None:
        trainer._encoder.encode(batch, chance)

    return {
        "first_findings_s": _timed(lambda: trainer.findings(0.0)),
        "findings_s": _timed(lambda: trainer.findings(0.0)),
        "first_encode_s": _timed(encode),
        "encode_s": _timed(encode),
    }


def _timed(work: object) -> float:
    """Seconds, the device's included."""
    begun = time.perf_counter()
    work()  # type: ignore[operator]
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begun


# Processes that speak import this file too.
if __name__ == "__main__":
    main(*(Path(given) for given in sys.argv[1:4]), sys.argv[4])
