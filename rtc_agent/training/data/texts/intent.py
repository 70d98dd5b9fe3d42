"""One kind of thing a caller may ask."""

from __future__ import annotations

from dataclasses import dataclass

ASK_NAME = "ask-name"
"""Answered with the name that the persona gave: the replies are in the order of the names."""
AGAIN = "say-that-again"
"""Answered with the agent's sentence before; it has no replies of its own."""


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
