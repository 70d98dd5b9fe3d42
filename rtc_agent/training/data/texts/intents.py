"""The kinds of things a caller may ask, and what the agent answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np

from rtc_agent.training.data.texts import names, questions, small_talk
from rtc_agent.training.data.texts.intent import ASK_NAME, GREETING, Intent, named

SORRY = "Sorry, I did not understand. Please say that again."
"""To whatever lies outside the domain."""
STILL_THERE = "Are you still there?"
"""After six seconds in which no one spoke; once."""
NOTHING, OUT_OF_DOMAIN, SILENCE = "nothing", "out-of-domain", "silence"
"""Reply classes that no intent has."""

_OPENINGS = (
    *("um", "uh", "so", "okay", "well", "hey", "please", "and", "now", "alright"),
    *("okay so", "um so", "oh", "hmm", "right", "actually", "hello", "hi"),
)
"""Said before a question; they change nothing."""
_CLOSINGS = ("please", "then", "for me", "thanks", "now")
_OPENED, _CLOSED = 0.35, 0.06


class Domain:
    """Every intent by name."""

    def __init__(self, intents: Mapping[str, Intent]) -> None:
        self.intents = intents
        weights = np.array([intent.weight for intent in intents.values()])
        self._listed = tuple(intents.values())
        self._chances = weights / weights.sum()

    @property
    def families(self) -> tuple[str, ...]:
        """The kinds of questions: sums are one, however many numbers there are."""
        return tuple(dict.fromkeys(intent.family for intent in self.intents.values()))

    def replies(self) -> Iterator[tuple[str, str]]:
        """Every sentence of the agent with its reply class."""
        for name in names.NAMES:
            yield names.greeting(name), named(GREETING, name)
        for intent in self.intents.values():
            if intent.name == ASK_NAME:
                for name in names.NAMES:
                    yield names.answer(name), named(ASK_NAME, name)
                continue
            for reply in intent.replies:
                yield reply, intent.name
        yield SORRY, OUT_OF_DOMAIN
        yield STILL_THERE, SILENCE

    def draw(self, rng: np.random.Generator) -> tuple[Intent, str]:
        """An intent by its weight and something that a caller would say for it."""
        intent = self._listed[int(rng.choice(len(self._listed), p=self._chances))]
        return intent, phrase(intent, rng)


def phrase(intent: Intent, rng: np.random.Generator, said: str | None = None) -> str:
    """That or one of an intent's phrasings, some with a filler before or a word behind."""
    if said is None:
        said = intent.says[int(rng.integers(len(intent.says)))]
    if rng.random() < _OPENED and intent.may_open:
        said = f"{_OPENINGS[int(rng.integers(len(_OPENINGS)))]} {said}"
    elif rng.random() < _CLOSED and intent.may_open:
        said = f"{said} {_CLOSINGS[int(rng.integers(len(_CLOSINGS)))]}"
    return said


@cache
def demo_domain() -> Domain:
    """The domain of the demo agent.

    Raises:
        ValueError: two intents share a name, or a phrasing.
    """
    found: dict[str, Intent] = {}
    owner: dict[str, str] = {}
    ask_name = Intent(
        ASK_NAME, ASK_NAME, names.ASKED, tuple(map(names.answer, names.NAMES)), weight=6.0
    )
    for intent in (ask_name, *small_talk.intents(), *questions.intents()):
        if intent.name in found:
            raise ValueError(f"two intents are named {intent.name!r}")
        found[intent.name] = intent
        for said in intent.says:
            if said in owner:
                raise ValueError(f"{said!r} belongs to {owner[said]!r} and {intent.name!r}")
            owner[said] = intent.name
    return Domain(found)
