"""Which replicas to start and which to drain: the step from what there is to what is wanted.

Pure, so that it can be tried against any course of events. One rule above all: a replica that holds
calls is only ever drained, and never more than the wish allows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rtc_agent.cluster.parts import Part
from rtc_agent.cluster.plan import Phase

SURGE = 1
"""Replicas beyond the wanted number while an upgrade is under way."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be done now."""

    start: int = 0
    drain: list[Part] = field(default_factory=list)


def next_step(
    parts: Sequence[Part],
    *,
    wanted: int,
    generation: int,
    surge: bool,
    surge_wait_s: float,
    now_s: float,
) -> Step:
    """The next step towards `wanted` replicas of that generation.

    Args:
        surge: start a new one before an old one is drained, and not after.
        surge_wait_s: how long a new one may find no place before an old one makes room.
    """
    staying = [part for part in parts if not part.drained]
    current = [part for part in staying if part.generation == generation]
    outdated = [part for part in staying if part.generation != generation]
    missing = wanted - len(current)
    if not outdated:
        return Step(max(0, missing), _idlest(current, -missing))
    room = wanted + (SURGE if surge else 0) - len(staying)
    start = max(0, min(missing, room))
    able = sum(part.serving for part in current) + len(outdated)
    if able - wanted >= (1 if surge else 0):
        return Step(start, _idlest(outdated, 1))
    waiting = [part for part in current if part.phase is Phase.PENDING]
    stuck = any(now_s - part.started_s > surge_wait_s for part in waiting)
    if stuck and able >= wanted and not _leaving(parts):
        return Step(start, _idlest(outdated, 1))
    return Step(start, [])


def _idlest(parts: list[Part], count: int) -> list[Part]:
    """Those whose end costs least: not serving first, then by how many calls they hold."""
    return sorted(parts, key=lambda part: (part.serving, part.calls))[: max(0, count)]


def _leaving(parts: Sequence[Part]) -> bool:
    return any(part.drained for part in parts)
