"""What was right in a call, and how fast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rtc_agent.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE
from rtc_agent.training.data.batch import Samples
from rtc_agent.training.evaluation.calls import Held

_BLOCK = SAMPLE_RATE // 100
"""10 ms, by which sound is told from silence."""
_SOUND_RMS = 10 ** (-45 / 20)
_REACTION_S = 0.48
"""After a caller cuts in, until text is a false start and no rest of what was being said."""
_STOP_WITHIN_S = 3.0
_GAP_S = 0.2
"""Quiet for so long, and the agent has stopped; words have shorter gaps within."""


@dataclass(frozen=True, slots=True)
class Score:
    """One call's."""

    kind: str
    right: bool
    said: str
    answer: str
    greeted: bool
    false_start: bool
    delay_s: float | None
    """From the caller's last sample to the agent's first sound; None if none came."""
    silent_after_s: float | None
    """From a caller's cutting in to the agent's last sound; None where nobody cut in."""
    sound: tuple[int, int] | None
    """Samples of the agent's answer."""


@dataclass(slots=True)
class Tally:
    """Of many calls."""

    scores: list[Score] = field(default_factory=list)

    def share(self, kind: str) -> tuple[int, int]:
        """How many of a kind are right, and of how many."""
        mine = [s.right for s in self.scores if s.kind == kind]
        return sum(mine), len(mine)

    @property
    def false_starts(self) -> int:
        return sum(s.false_start for s in self.scores)

    @property
    def greetings(self) -> int:
        return sum(s.greeted for s in self.scores)

    def delays(self) -> list[float]:
        return [s.delay_s for s in self.scores if s.delay_s is not None and s.kind != "sound"]

    def silences(self) -> list[float]:
        return [s.silent_after_s for s in self.scores if s.silent_after_s is not None]


def score(held: Held, cut_in: bool, greetings: Iterable[str], still_there: str) -> Score:
    """Judge one call.

    Args:
        cut_in: whether the caller spoke into the greeting.
        greetings: what a call may be opened with; empty: nothing may be said before the caller.
        still_there: what may follow an answer, once the caller is quiet.
    """
    call, case = held.call, held.call.case
    begins, ends = call.begins // FRAME_SAMPLES, call.ends // FRAME_SAMPLES
    before = "".join(held.text[:begins]).strip()
    allowed = tuple(greetings)
    # What was being said when the caller cut in may still end.
    tail = begins + (round(_REACTION_S * 12.5) if cut_in else 2)
    after = max(tail, begins)
    answer = "".join(held.text[after:]).strip()
    whole = any(before == g for g in allowed)
    started = any(g.startswith(before) and before for g in allowed)
    sound = _answer_sound(held.pcm, call.ends)
    delay = None if sound is None else (sound[0] - call.ends) / SAMPLE_RATE
    return Score(
        kind=case.kind,
        right=_right(answer, case.expected, still_there),
        said=case.said,
        answer=answer,
        greeted=started if cut_in else whole or (not allowed and not before),
        false_start=any(t.strip() for t in held.text[tail:ends]),
        delay_s=delay,
        silent_after_s=silent_after(held.pcm, call.begins) if cut_in else None,
        sound=sound,
    )


def _right(answer: str, expected: frozenset[str], still_there: str) -> bool:
    if not expected:
        # Nothing was asked: but a long silence may be.
        return bool(not answer or (still_there and still_there.startswith(answer)))
    for sentence in expected:
        rest = answer.removeprefix(sentence)
        if rest == answer:
            continue
        if not rest or still_there.startswith(rest.strip()):
            return True
    return False


def silent_after(pcm: Samples, onset: int) -> float:
    """Seconds from a sample until the agent's sound ends there, as far as it was on."""
    loud = _loud(pcm[onset : onset + int(_STOP_WITHIN_S * SAMPLE_RATE)])
    gap = int(_GAP_S * SAMPLE_RATE / _BLOCK)
    last = 0
    for index in np.flatnonzero(loud):
        if index - last > gap:
            break
        last = int(index) + 1
    return last * _BLOCK / SAMPLE_RATE


def _answer_sound(pcm: Samples, ends: int) -> tuple[int, int] | None:
    """The first stretch of sound after the caller's end."""
    loud = np.flatnonzero(_loud(pcm[ends:]))
    if not len(loud):
        return None
    return ends + int(loud[0]) * _BLOCK, ends + (int(loud[-1]) + 1) * _BLOCK


def _loud(pcm: Samples) -> np.ndarray:
    whole = pcm[: len(pcm) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    return np.asarray(np.sqrt(np.square(whole).mean(1)) > _SOUND_RMS)


def percentile(values: Sequence[float], q: float) -> float | None:
    """None of nothing."""
    return round(float(np.percentile(values, q)), 3) if values else None
