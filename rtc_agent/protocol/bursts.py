"""Agent speech without turns, cut into bursts for protocols that think in answers.

A full-duplex agent gives sound in every frame and text now and then. A burst begins with the first
text or the first audible speech after a pause, and ends when the agent falls silent.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from rtc_agent.protocol.events import CallEvent, Speech, Text

UNHEARD_FRAMES = 25
"""Text that no audible speech goes with makes a burst of its own, closed after so long: 2 s."""


class Step(enum.Enum):
    """What an event does to the current burst."""

    OPENED = "opened"
    HEARD = "heard"
    """The agent became audible."""
    TEXT = "text"
    SILENT = "silent"
    """The agent is no longer audible."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class BurstStep:
    step: Step
    text: str = ""
    """TEXT: the piece. CLOSED: all that was said in the burst."""


class Bursts:
    """Follows the events of one call."""

    def __init__(self) -> None:
        self.open = False
        self.audible = False
        self.text = ""
        self._latest = 0

    def push(self, event: CallEvent) -> Iterator[BurstStep]:
        """What this event means. To be consumed whole before the next event."""
        if self.open and not self.audible and event.frame - self._latest > UNHEARD_FRAMES:
            yield from self.close()
        match event:
            case Text(delta=delta):
                yield from self._begin(event.frame)
                self.text += delta
                yield BurstStep(Step.TEXT, delta)
            case Speech(who="agent", speaking=True) if not self.audible:
                yield from self._begin(event.frame)
                self.audible = True
                yield BurstStep(Step.HEARD)
            case Speech(who="agent", speaking=False) if self.audible:
                yield from self.close()

    def close(self) -> Iterator[BurstStep]:
        """End the burst now, if there is one."""
        if self.audible:
            self.audible = False
            yield BurstStep(Step.SILENT)
        if self.open:
            text, self.text, self.open = self.text, "", False
            yield BurstStep(Step.CLOSED, text)

    def _begin(self, frame: int) -> Iterator[BurstStep]:
        self._latest = frame
        if not self.open:
            self.open = True
            yield BurstStep(Step.OPENED)
