"""The mirror: all of a model's work, and the caller's own sound back in the model's own time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rtc_agent.engine.stepper import (
    FRAME_SAMPLES,
    FrameStepper,
    Mask,
    Pcm,
    SessionSpec,
    StepperInfo,
    StepResult,
    opens_at_once,
)

DESCRIPTION = (
    "A mirror: the model does all its work and you hear yourself when it would be heard. For "
    "measuring what a real call costs on this machine, without the model's weights."
)


class MirrorStepper:
    """Plays each caller's frames back in place of the model's sound, as late as that would be.

    A probe then measures mouth to ear with the load, the opening times and the text of the model.

    Args:
        model: steps as in any call; what it says is thrown away, its text is not.
    """

    def __init__(self, model: FrameStepper) -> None:
        self._model = model
        self._late = model.info.latency_frames
        self._heard = np.zeros((self._late, model.slots, FRAME_SAMPLES), np.float32)
        """The frames that are still to be played back, oldest first."""

    @property
    def slots(self) -> int:
        return self._model.slots

    @property
    def info(self) -> StepperInfo:
        return replace(self._model.info, agent="mirror", description=DESCRIPTION)

    def check(self, spec: SessionSpec) -> None:
        self._model.check(spec)

    def keeps(self, spec: SessionSpec) -> bool:
        return opens_at_once(self._model, spec)

    def open(self, slot: int, spec: SessionSpec) -> Iterator[None]:
        self._heard[:, slot] = 0
        return self._model.open(slot, spec)

    def step(self, pcm: Pcm, live: Mask) -> StepResult:
        result = self._model.step(pcm, live)
        if not self._late:
            return replace(result, pcm=pcm.copy())
        played = self._heard[0].copy()
        self._heard[:-1, live] = self._heard[1:, live]
        self._heard[-1, live] = pcm[live]
        return replace(result, pcm=played)

    def close(self, slot: int) -> str:
        return self._model.close(slot)

    def shutdown(self) -> None:
        self._model.shutdown()
