"""A stepper that keeps what every conversation was given and what it gave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from rtc_agent.engine.stepper import (
    FrameStepper,
    Mask,
    Pcm,
    SamplingSpec,
    SessionSpec,
    StepperInfo,
    StepResult,
)
from tests.lockstep_model import Said


@dataclass
class Conversation:
    """One session, frame by frame."""

    spec: SessionSpec
    frames: list[Pcm] = field(default_factory=list)
    """What the agent heard."""
    said: Said = field(default_factory=Said)

    @property
    def text(self) -> str:
        return "".join(self.said.text)


class Overheard:
    """A `FrameStepper` around another, in which every session draws greedily."""

    def __init__(self, stepper: FrameStepper) -> None:
        self._stepper = stepper
        self._by_slot: dict[int, Conversation] = {}
        self.conversations: list[Conversation] = []

    @property
    def slots(self) -> int:
        return self._stepper.slots

    @property
    def info(self) -> StepperInfo:
        return self._stepper.info

    def check(self, spec: SessionSpec) -> None:
        self._stepper.check(spec)

    def open(self, slot: int, spec: SessionSpec) -> Iterator[None]:
        greedy = replace(spec, sampling=SamplingSpec(greedy=True))
        self._by_slot[slot] = Conversation(greedy)
        self.conversations.append(self._by_slot[slot])
        return self._stepper.open(slot, greedy)

    def step(self, pcm: Pcm, live: Mask) -> StepResult:
        result = self._stepper.step(pcm, live)
        for slot in map(int, np.flatnonzero(live)):
            conversation = self._by_slot[slot]
            conversation.frames.append(pcm[slot].copy())
            conversation.said.pcm.append(result.pcm[slot].copy())
            conversation.said.text.append(result.text.get(slot, ""))
        return result

    def close(self, slot: int) -> str:
        return self._stepper.close(slot)

    def shutdown(self) -> None:
        self._stepper.shutdown()
