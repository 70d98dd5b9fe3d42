"""Steppers, sources and sinks that record what the engine does with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rtc_agent.engine.client import AgentFrame
from rtc_agent.engine.stepper import (
    FRAME_SAMPLES,
    Mask,
    Pcm,
    SessionSpec,
    StepperInfo,
    StepResult,
)


class FakeStepper:
    """Adds one to every sample, so that output can be told from input."""

    info = StepperInfo(agent="fake", description="for tests")

    def __init__(self, slots: int = 4, pieces: int = 0) -> None:
        self.slots = slots
        self.pieces = pieces
        self.steps: list[list[int]] = []
        self.opened: list[int] = []
        self.specs: list[SessionSpec] = []
        self.closed: list[int] = []
        self.pieces_done = 0
        self.shut_down = False
        self.before_step: Callable[[], None] = lambda: None
        self.on_piece: Callable[[], None] = lambda: None
        self.failed: dict[int, str] = {}
        self.text: dict[int, str] = {}

    def check(self, spec: SessionSpec) -> None:
        pass

    def open(self, slot: int, spec: SessionSpec) -> Iterator[None]:
        self.opened.append(slot)
        self.specs.append(spec)
        for _ in range(self.pieces):
            self.pieces_done += 1
            self.on_piece()
            yield

    def step(self, pcm: Pcm, live: Mask) -> StepResult:
        self.before_step()
        self.steps.append([int(slot) for slot in np.flatnonzero(live)])
        return StepResult(pcm=pcm + 1, text=dict(self.text), failed=dict(self.failed))

    def close(self, slot: int) -> str:
        self.closed.append(slot)
        return ""

    def shutdown(self) -> None:
        self.shut_down = True


class NumberedSource:
    """Frame n holds the value n; counts what becomes of them."""

    def __init__(self) -> None:
        self.number = 0
        self.reserved = 0
        self.committed: list[int] = []
        self.skipped = 0
        self.rolled_back = 0

    def reserve(self) -> Pcm:
        self.reserved += 1
        return np.full(FRAME_SAMPLES, self.number, np.float32)

    def commit(self) -> None:
        self.committed.append(self.number)
        self.number += 1

    def rollback(self) -> None:
        self.rolled_back += 1

    def skip(self) -> None:
        self.skipped += 1
        self.number += 1


class RecordingSink:
    """Keeps all that the engine tells a call."""

    def __init__(self) -> None:
        self.ready = 0
        self.frames: list[AgentFrame] = []
        self.skipped = 0
        self.failures: list[str] = []
        self.notices: list[tuple[str, dict[str, Any]]] = []

    def on_ready(self) -> None:
        self.ready += 1

    def on_frame(self, frame: AgentFrame) -> None:
        self.frames.append(frame)

    def on_skipped(self, frames: int) -> None:
        self.skipped += frames

    def tell(self, code: str, message: str, **fields: Any) -> None:
        self.notices.append((code, fields))

    def on_failed(self, reason: str) -> None:
        self.failures.append(reason)

    @property
    def indices(self) -> list[int]:
        return [frame.index for frame in self.frames]

    @property
    def values(self) -> list[int]:
        """What each frame's source frame was numbered."""
        return [int(frame.pcm[0]) - 1 for frame in self.frames]
