"""A tick with its two stages together and apart, without a server.

    python benchmarks/stages.py --agent tiny
    python benchmarks/stages.py --agent demo --model DIR --sessions 1,4
    python benchmarks/stages.py --released --device cuda:0 --code2wav cuda:1 --sessions 1,16,64

`tick` is the time from one step to the next of an engine that never waits for a deadline; `sound`
the time from a step's beginning until its sound is there. Together, both are the whole step.
`--released` takes random weights of the released sizes, code2wav in a thread, and empty windows.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from rtc_agent.config import Settings
from rtc_agent.engine.agents import create_stepper
from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.random_model import random_model
from rtc_agent.engine.stages.link import Code2WavLink
from rtc_agent.engine.stages.memory import Layout
from rtc_agent.engine.stages.settings import Code2WavStage, StageSettings
from rtc_agent.engine.stages.stepper import StagedStepper
from rtc_agent.engine.stages.worker import ThreadWorker
from rtc_agent.engine.stepper import (
    FRAME_SAMPLES,
    FrameStepper,
    PipelinedStepper,
    SamplingSpec,
    SessionSpec,
    StepResult,
)
from rtc_agent.model.backend import backend_for
from rtc_agent.model.code2wav import Code2WavModel
from rtc_agent.model.precision import use_exact_float32
from rtc_agent.model.random_weights import random_mimi

WARM_UP = 10


def main() -> None:
    use_exact_float32()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", default="tiny")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--released", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--code2wav", help="its device; left out: the talker's")
    parser.add_argument("--sessions", default="1")
    parser.add_argument("--ticks", type=int, default=120)
    options = parser.parse_args()
    apart = StageSettings(code2wav=Code2WavStage(device=options.code2wav))
    make: Callable[[int, StageSettings | None], FrameStepper] = functools.partial(_agent, options)
    if options.released:
        make = _released(
            torch.device(options.device), torch.device(options.code2wav or options.device)
        )
    for sessions in map(int, options.sessions.split(",")):
        for stages in (None, apart):
            stepper = make(sessions, stages)
            try:
                row = {
                    "agent": "released" if options.released else options.agent,
                    "devices": [options.device, options.code2wav],
                    "sessions": sessions,
                    "stages": "together" if stages is None else "apart",
                    **measure(stepper, options.ticks),
                }
                print(json.dumps(row), flush=True)
            finally:
                stepper.shutdown()


def _agent(
    options: argparse.Namespace, sessions: int, stages: StageSettings | None
) -> FrameStepper:
    settings = Settings(
        agent=options.agent,
        model=options.model,
        sessions=sessions,
        device=options.device,
        stages=stages,
    )
    return create_stepper(settings).stepper


def _released(
    device: torch.device, second: torch.device
) -> Callable[[int, StageSettings | None], FrameStepper]:
    """Steppers of random weights; code2wav's are drawn where it runs."""
    parts = random_model(device, torch.bfloat16, tiny=False)
    backend = backend_for(device)
    mimi = random_mimi(parts.spec.mimi, 0, device=second)

    def load(rows: int) -> Code2WavModel:
        return backend.code2wav(parts.spec, mimi, rows)

    def make(sessions: int, stages: StageSettings | None) -> FrameStepper:
        if stages is None:
            return LockstepStepper(parts, sessions, backend=backend)
        layout = Layout.of(sessions, stages)

        def connect(rows: int) -> Code2WavLink:
            def worker(memory: int) -> ThreadWorker:
                bank = functools.partial(load, rows)
                return ThreadWorker(lambda: bank, sessions // rows, memory, layout)

            return Code2WavLink(layout, worker, stages.codec_left_context_frames, hung_s=60)

        return StagedStepper(parts, sessions, stages, connect, backend=backend)

    return make


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
