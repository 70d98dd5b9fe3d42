"""How loud a signal is, and when somebody speaks in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm

SILENCE_DBFS = -100.0
"""The level reported for digital silence."""
AUDIBLE_DBFS = -50.0
"""Above it, somebody is taken to be speaking still."""


def dbfs(pcm: Pcm) -> float:
    """RMS level in dB relative to a full-scale square wave; at least `SILENCE_DBFS`."""
    if not len(pcm):
        return SILENCE_DBFS
    power = float(np.dot(pcm, pcm)) / len(pcm)
    return max(SILENCE_DBFS, 10 * float(np.log10(power + 1e-12)))


@dataclass(frozen=True, slots=True)
class SpeechEvent:
    """Somebody began or stopped speaking."""

    state: Literal["started", "stopped"]
    at_s: float
    """Seconds of signal before the first (last) sound of it."""
    duration_s: float
    """How long it was, for `stopped`; 0 for `started`."""


class SpeechDetector:
    """Speech by level with hysteresis, over a noise floor that it follows.

    Levels are taken every 20 ms. Speech starts after `start_s` above the upper threshold and stops
    after `stop_s` below the lower one; a stretch shorter than `start_s` (a click) is none.
    """

    BLOCK = SAMPLE_RATE // 50

    def __init__(
        self,
        *,
        start_s: float = 0.06,
        stop_s: float = 0.5,
        floor_dbfs: float = -60.0,
        above_floor_db: float = 12.0,
        hysteresis_db: float = 6.0,
    ) -> None:
        self._start_blocks = max(1, round(start_s * SAMPLE_RATE / self.BLOCK))
        self._stop_blocks = max(1, round(stop_s * SAMPLE_RATE / self.BLOCK))
        self._floor = self._least_floor = floor_dbfs
        self._above = above_floor_db
        self._hysteresis = hysteresis_db
        self._rest = np.empty(0, np.float32)
        self._blocks = 0
        self._run = 0
        self._began = 0
        self.speaking = False
        self.level_dbfs = SILENCE_DBFS
        """Of the last 20 ms."""

    def update(self, pcm: Pcm) -> list[SpeechEvent]:
        """Follow the signal on; any number of samples at 24 kHz."""
        line = np.concatenate([self._rest, pcm]) if len(self._rest) else pcm
        whole = len(line) // self.BLOCK
        events = []
        for i in range(whole):
            block = line[i * self.BLOCK : (i + 1) * self.BLOCK]
            if (event := self._block(dbfs(block))) is not None:
                events.append(event)
        self._rest = line[whole * self.BLOCK :]
        return events

    def _block(self, level: float) -> SpeechEvent | None:
        self._blocks += 1
        self.level_dbfs = level
        upper = self._floor + self._above
        if not self.speaking:
            # Down at once, up by 1 dB a second: speech must not become its own floor.
            self._floor = max(self._least_floor, min(level, self._floor + 0.02))
            self._run = self._run + 1 if level > upper else 0
            if self._run < self._start_blocks:
                return None
            self.speaking = True
            self._began = self._blocks - self._run
            self._run = 0
            return SpeechEvent("started", self._began * self.BLOCK / SAMPLE_RATE, 0.0)
        self._run = self._run + 1 if level < upper - self._hysteresis else 0
        if self._run < self._stop_blocks:
            return None
        self.speaking = False
        ended = self._blocks - self._run
        self._run = 0
        return SpeechEvent(
            "stopped",
            ended * self.BLOCK / SAMPLE_RATE,
            (ended - self._began) * self.BLOCK / SAMPLE_RATE,
        )
