"""A tick with its two stages together and apart, without a server.

    python benchmarks/stages.py --agent tiny
    python benchmarks/stages.py --agent demo --model DIR --sessions 1,4

`tick` is the time from one step to the next of an engine that never waits for a deadline; `sound`
the time from a step's beginning until its sound is there. Together, both are the whole step.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from rtc_agent.config import Settings
from rtc_agent.engine.agents import create_stepper
from rtc_agent.engine.stages.settings import StageSettings
from rtc_agent.engine.stepper import (
    FRAME_SAMPLES,
    FrameStepper,
    PipelinedStepper,
    SamplingSpec,
    SessionSpec,
    StepResult,
)

WARM_UP = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", default="tiny")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--sessions", default="1")
    parser.add_argument("--ticks", type=int, default=120)
    options = parser.parse_args()
    for sessions in map(int, options.sessions.split(",")):
        for stages in (None, StageSettings()):
            settings = Settings(
                agent=options.agent,
                model=options.model,
                sessions=sessions,
                device="cpu",
                stages=stages,
            )
            stepper = create_stepper(settings).stepper
            try:
                row = {
                    "agent": options.agent,
                    "sessions": sessions,
                    "stages": "together" if stages is None else "apart",
                    **measure(stepper, options.ticks),
                }
                print(json.dumps(row), flush=True)
            finally:
                stepper.shutdown()


def measure(stepper: FrameStepper, ticks: int) -> dict[str, float]:
    """Milliseconds, median and 99th percentile, with all sessions live."""
    for slot in range(stepper.slots):
        for _ in stepper.open(slot, SessionSpec(sampling=SamplingSpec(seed=slot))):
            pass
    rng = np.random.default_rng(0)
    pcm = rng.normal(scale=0.1, size=(stepper.slots, FRAME_SAMPLES)).astype(np.float32)
    live = np.ones(stepper.slots, np.bool_)
    began: list[float] = []
    heard: list[float] = []

    def sound(finish: Callable[[], StepResult]) -> None:
        if finish().lost:
            raise RuntimeError("sound was lost")
        heard.append(time.perf_counter())

    with ThreadPoolExecutor(1) as collector:
        last: Future[None] | None = None
        for _ in range(WARM_UP + ticks):
            began.append(time.perf_counter())
            if isinstance(stepper, PipelinedStepper):
                finish = stepper.begin(pcm, live)
                if last is not None:
                    last.result()
                last = collector.submit(sound, finish)
            else:
                stepper.step(pcm, live)
                heard.append(time.perf_counter())
        if last is not None:
            last.result()
    tick = 1e3 * np.diff(began)[WARM_UP:]
    to_sound = 1e3 * (np.array(heard) - np.array(began))[WARM_UP:]
    named = {"tick": tick, "sound": to_sound}
    return {
        f"{name}_ms_{kind}": round(float(np.percentile(times, at)), 2)
        for name, times in named.items()
        for kind, at in (("p50", 50), ("p99", 99))
    }


if __name__ == "__main__":
    main()
