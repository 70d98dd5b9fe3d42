"""Which replicas to start and which to drain: the step from what there is to what is wanted.

Pure, so that it can be tried against any course of events. One rule above all: a replica that holds
calls is only ever drained, and so many take new calls at any time as the wish says: all that are
wanted where new ones find room beside the old, and else all but `at_once`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rtc_agent.cluster.parts import Part
from rtc_agent.cluster.plan import Phase


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
    freed_s: float = float("-inf"),
    at_once: int = 1,
    halted: bool = False,
) -> Step:
    """The next step towards `wanted` replicas of that generation.

    Args:
        surge: start new ones before old ones are drained, and not after.
        surge_wait_s: how long new ones may find no place before old ones make room.
        freed_s: when a place became free the last time.
        at_once: how many are replaced at the same time; those that are drained and still have calls
            do not count. Never all, unless there is but one.
        halted: replace no old ones; only make good what is missing.
    """
    staying = [part for part in parts if not part.drained]
    current = [part for part in staying if part.generation == generation]
    outdated = [part for part in staying if part.generation != generation]
    missing = wanted - len(current)
    if not outdated:
        return Step(max(0, missing), _idlest(current, -missing))
    if halted:
        spare = len(staying) - wanted
        leaving = _idlest(current, spare)
        return Step(max(0, -spare), leaving + _idlest(outdated, spare - len(leaving)))
    start = max(0, min(missing, wanted + (at_once if surge else 0) - len(staying)))
    able = sum(part.serving for part in current) + len(outdated)
    away = min(at_once, max(1, wanted - 1))
    is_long_ago = freed_s <= now_s - surge_wait_s
    stuck = is_long_ago and _is_stuck(parts, current, now_s - surge_wait_s)
    makes_room = not surge or (able >= wanted and stuck)
    return Step(start, _idlest(outdated, able - wanted + (away if makes_room else 0)))


def _idlest(parts: list[Part], count: int) -> list[Part]:
    """Those whose end costs least: not serving first, then by how many calls they hold."""
    return sorted(parts, key=lambda part: (part.serving, part.calls))[: max(0, count)]


def _is_stuck(parts: Sequence[Part], current: Sequence[Part], since_s: float) -> bool:
    """New ones have found no place for so long, and nothing is under way that would give them one
    or do without them."""
    waiting = any(p.phase is Phase.PENDING and p.started_s < since_s for p in current)
    under_way = any(part.drained for part in parts)
    return waiting and not under_way and all(p.phase is not Phase.STARTING for p in current)
