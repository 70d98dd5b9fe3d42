"""The echo agent: an echo test as telephones have it, through the engine every agent runs on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rtc_agent.engine.stepper import (
    Mask,
    Pcm,
    SessionSpec,
    StepperInfo,
    StepResult,
)
from rtc_agent.errors import InvalidPersona, UnknownVoice
from rtc_agent.media.levels import SpeechDetector

_INFO = StepperInfo(
    agent="echo",
    description="An echo test: you hear yourself, and read for how long you spoke.",
)


class EchoStepper:
    """Gives each frame back in the tick that took it; says in text how long the caller spoke."""

    def __init__(self, slots: int) -> None:
        self._detectors = [SpeechDetector() for _ in range(slots)]

    @property
    def slots(self) -> int:
        return len(self._detectors)

    @property
    def info(self) -> StepperInfo:
        return _INFO

    def check(self, spec: SessionSpec) -> None:
        if spec.voice is not None:
            raise UnknownVoice("The echo agent has your own voice only; leave the voice out.")
        if spec.persona:
            raise InvalidPersona("The echo agent takes no persona; leave it out.")

    def open(self, slot: int, spec: SessionSpec) -> Iterator[None]:
        self._detectors[slot] = SpeechDetector()
        return iter(())

    def step(self, pcm: Pcm, live: Mask) -> StepResult:
        text = {}
        for slot in np.flatnonzero(live):
            for event in self._detectors[slot].update(pcm[slot]):
                if event.state == "stopped":
                    text[int(slot)] = f"you spoke for {event.duration_s:.1f} s\n"
        return StepResult(pcm=pcm.copy(), text=text)

    def close(self, slot: int) -> str:
        """Nothing is kept between sessions."""
        return ""

    def shutdown(self) -> None:
        """Nothing is held."""
