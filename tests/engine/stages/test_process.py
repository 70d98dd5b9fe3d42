"""Code2wav in a process of its own: the same sound, killed and mended, and nothing left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rtc_agent.config import Settings
from rtc_agent.engine.loading import tiny_stepper
from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.stages.settings import StageSettings
from rtc_agent.engine.stages.stepper import StagedStepper
from rtc_agent.engine.stages.worker import ProcessWorker
from rtc_agent.engine.stepper import Pcm, SamplingSpec, SessionSpec
from tests.lockstep_model import noise
from tests.process_tree import is_alive

SPEC = SessionSpec(None, "Hm.", SamplingSpec(seed=5))
LIVE = np.ones(1, np.bool_)
FRAMES = 24
ROOT = Path(__file__).parents[3]
ORPHAN = """
import sys, time
from rtc_agent.config import Settings
from rtc_agent.engine.loading import tiny_stepper
from rtc_agent.engine.stages.settings import StageSettings
stepper = tiny_stepper(Settings(agent="tiny", sessions=1, device="cpu", stages=StageSettings()))
print(stepper.link._worker.pid, flush=True)
time.sleep(600)
"""


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def sound(stepper: StagedStepper | LockstepStepper, frames: Pcm) -> list[Pcm | None]:
    given = []
    for frame in frames:
        result = stepper.step(frame[None], LIVE)
        given.append(None if result.lost else result.pcm[0].copy())
    return given


def opened(stepper: StagedStepper | LockstepStepper) -> None:
    for _ in stepper.open(0, SPEC):
        pass


@pytest.fixture
def expected() -> Iterator[list[Pcm | None]]:
    whole = tiny_stepper(Settings(agent="tiny", sessions=1, device="cpu"))
    opened(whole)
    yield sound(whole, noise(7, FRAMES))


def killed_and_mended(expected: list[Pcm | None]) -> tuple[int, int]:
    """A call whose code2wav is killed; the process ids of both."""
    settings = Settings(agent="tiny", sessions=1, device="cpu", stages=StageSettings())
    apart = tiny_stepper(settings)
    assert isinstance(apart, StagedStepper)
    try:
        opened(apart)
        frames = noise(7, FRAMES)
        given = sound(apart, frames[:8])
        first = apart.link._worker
        assert isinstance(first, ProcessWorker)
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: not is_alive(first.pid))
        given += sound(apart, frames[8:12])
        until(lambda: apart.link.mark()[0] == 2)
        given += sound(apart, frames[12:])
        assert {tick for tick, pcm in enumerate(given) if pcm is None} <= {8, 9, 10, 11}
        for mine, whole in zip(given, expected, strict=True):
            assert mine is None or np.array_equal(mine, whole)
        second = apart.link._worker
        assert isinstance(second, ProcessWorker)
        return first.pid, second.pid
    finally:
        apart.shutdown()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_killed_it_comes_back_with_its_state_and_leaves_nothing(
    expected: list[Pcm | None],
) -> None:
    handles = len(os.listdir("/proc/self/fd"))
    for pid in killed_and_mended(expected):
        assert not is_alive(pid)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= handles
    assert not [name for name in os.listdir("/dev/shm") if "rtc-agent" in name]


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for a parent's death")
def test_it_does_not_outlive_a_server_that_is_killed() -> None:
    with subprocess.Popen(
        (sys.executable, "-c", ORPHAN), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        assert is_alive(pid)
        # Even one that is stopped, and reads from no pipe.
        os.kill(pid, signal.SIGSTOP)
        server.kill()
        until(lambda: not is_alive(pid))
