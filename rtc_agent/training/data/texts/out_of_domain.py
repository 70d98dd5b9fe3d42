"""What callers say that the agent does not know, from single words to long sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from rtc_agent.training.data.texts import questions, traps
from rtc_agent.training.data.texts.intents import demo_domain

Draw = Callable[[np.random.Generator], str]


def draw(rng: np.random.Generator) -> str:
    """A sentence or a word that no intent claims."""
    known = _known()
    while True:
        kind = _KINDS[int(rng.choice(len(_KINDS), p=_SHARES))]
        said = " ".join(kind(rng).split())
        if said not in known:
            return said


@cache
def _known() -> frozenset[str]:
    return frozenset(said for it in demo_domain().intents.values() for said in it.says)


def _pick(rng: np.random.Generator, of: Sequence[str]) -> str:
    return of[int(rng.integers(len(of)))]


def _statement(rng: np.random.Generator) -> str:
    parts = (traps.SUBJECTS, traps.VERBS, traps.OBJECTS, traps.TAILS)
    return " ".join(_pick(rng, part) for part in parts)


def _question(rng: np.random.Generator) -> str:
    return " ".join(_pick(rng, part) for part in (traps.ASKING, traps.OBJECTS, traps.TAILS))


def _long(rng: np.random.Generator) -> str:
    return f"{_statement(rng)} {_pick(rng, traps.JOINTS)} {_statement(rng)}"


def _fragment(rng: np.random.Generator) -> str:
    return f"{_pick(rng, traps.OBJECTS)} {_pick(rng, traps.TAILS)}"


def _request(rng: np.random.Generator) -> str:
    return _pick(rng, traps.REQUESTS)


def _word(rng: np.random.Generator) -> str:
    return _pick(rng, traps.WORDS)


def _words(rng: np.random.Generator) -> str:
    return " ".join(_pick(rng, traps.WORDS) for _ in range(int(rng.integers(2, 6))))


def _digits(rng: np.random.Generator) -> str:
    count = int(rng.choice([1, 2, 3, 4, 5, 7, 10]))
    return " ".join(_pick(rng, questions.NUMBERS[:10]) for _ in range(count))


def _trap(rng: np.random.Generator) -> str:
    """Near the domain: its own patterns with what the agent does not know in them."""
    pattern = _pick(rng, tuple(traps.PATTERNS))
    return pattern.format(_pick(rng, traps.PATTERNS[pattern]))


def _other_sum(rng: np.random.Generator) -> str:
    a, b = (_pick(rng, questions.NUMBERS) for _ in range(2))
    sign = _pick(rng, ("minus", "times", "divided by", "over"))
    return f"{_pick(rng, ('what is', 'how much is', ''))} {a} {sign} {b}"


def _large_sum(rng: np.random.Generator) -> str:
    a, b = (_pick(rng, traps.LARGE_NUMBERS) for _ in range(2))
    return f"{_pick(rng, ('what is', 'how much is', ''))} {a} plus {b}"


_WEIGHED: tuple[tuple[Draw, float], ...] = (
    *((_statement, 4), (_question, 4), (_long, 3), (_fragment, 2), (_request, 4)),
    *((_word, 3.5), (_words, 2), (_digits, 1), (_trap, 4), (_other_sum, 1.5), (_large_sum, 1)),
)
_KINDS = tuple(kind for kind, _ in _WEIGHED)
_SHARES = np.array([weight for _, weight in _WEIGHED])
_SHARES = _SHARES / _SHARES.sum()
