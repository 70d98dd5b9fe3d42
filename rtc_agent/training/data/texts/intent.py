"""One kind of thing a caller may ask."""

from __future__ import annotations

from dataclasses import dataclass

GREETING = "greeting"
"""What the agent opens a call with; no intent has it."""
ASK_NAME = "ask-name"
"""Answered with the name that the persona gave: the replies are in the order of the names."""


def named(kind: str, name: str) -> str:
    """The reply class of a sentence that holds the agent's own name: a class for each name, so that
    whose sentence is due is to be known before it begins."""
    return f"{kind}:{name}"


def kind_of(reply: str) -> str:
    """What a reply class is one of: that of `named`, or the intent's family."""
    return reply.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Intent:
    """What is asked for, how, and what may be answered."""

    name: str
    family: str
    says: tuple[str, ...]
    """Lower case words without punctuation."""
    replies: tuple[str, ...]
    """Any of them is right; as shown to the caller, so with capitals and punctuation."""
    weight: float = 1.0
    """How often it is drawn, against the others."""
    may_open: bool = True
    """Whether a filler may be put before it without changing what it means."""
