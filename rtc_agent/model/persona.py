"""A persona's plain text to the ids that PersonaPlex is prompted with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from rtc_agent.errors import InvalidPersona

MAX_CHARS = 4_000
"""A caller's limit, checked before any tokenizer is at hand."""

NAME_PERSONA = "Your name is {name}."
"""The persona of an agent that follows a name and nothing else of one."""

_TAG = "<system>"
_SAMPLE = (
    "You work for a small hotel by the sea. You are warm and brief, you ask one question at a "
    "time, and you repeat names and dates to be sure that you have understood them."
)
"""Plain English, as personas are written in it."""
_BEFORE_NAME = r"\b(?:name is|name:|you are|you're|be|called|call you|as)\s+"
"""What stands before an agent's own name in a persona."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class TextEncoder(Protocol):
    """The part of `sentencepiece.SentencePieceProcessor` that a persona needs."""

    def encode(self, text: str, /) -> list[int]: ...


def clean_persona(text: str | None, max_chars: int = MAX_CHARS) -> str | None:
    """The persona without surrounding blanks; None when nothing is left of it.

    Two personas that differ in surrounding blanks only are the same prompt.

    Raises:
        InvalidPersona: longer than `max_chars`, or with characters that no one can read.
    """
    cleaned = (text or "").strip()
    if not cleaned:
        return None
    if len(cleaned) > max_chars:
        raise InvalidPersona(
            f"The persona is {len(cleaned)} characters long; at most {max_chars} are taken."
        )
    if _UNPRINTABLE.search(cleaned):
        raise InvalidPersona("The persona holds control characters; send plain text.")
    return cleaned


def followed_persona(text: str | None, names: Sequence[str]) -> str | None:
    """What to prompt a model with that follows one of `names` and nothing else of a persona.

    A small model finds a name in texts like those that it was taught, and in others takes another.
    So it is given the persona's name in plain words, and no persona that holds none. Of several, it
    is the first that is said to be the agent's, as in "you are Ruby", else the first one. One in
    small letters counts only if it is said so: some names are words as well.

    Raises:
        InvalidPersona: as `clean_persona`.
    """
    cleaned = clean_persona(text)
    if cleaned is None:
        return None
    known = {name.lower(): name for name in names}
    any_name = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    # *Nova's sister* is not Nova.
    there = re.compile(
        rf"({_BEFORE_NAME})?(?<!\w)({any_name})(?!\w|['’]s\b)", re.IGNORECASE
    ).findall(cleaned)
    said = [name for before, name in there if before]
    written = [name for _, name in there if name[0].isupper()]
    name = next(iter(said + written), None)
    return None if name is None else NAME_PERSONA.format(name=known[name.lower()])


def wrap_persona(text: str) -> str:
    """`<system> TEXT <system>`, as PersonaPlex was trained; left alone if both ends are tagged."""
    cleaned = text.strip()
    if cleaned.startswith(_TAG) and cleaned.endswith(_TAG):
        return cleaned
    return f"{_TAG} {cleaned} {_TAG}"


def fitting_chars(encoder: TextEncoder, max_ids: int) -> int:
    """How long a persona of plain English may be, in characters: exactly where every character is
    an id, else about; at most `MAX_CHARS`.

    Args:
        max_ids: how many ids a wrapped persona may have.
    """
    tags = len(encoder.encode(wrap_persona("")))
    sample = len(encoder.encode(wrap_persona(_SAMPLE))) - tags
    return min(MAX_CHARS, max(0, max_ids - tags) * len(_SAMPLE) // sample)


def persona_ids(encoder: TextEncoder, text: str | None, max_ids: int) -> list[int]:
    """The ids of the wrapped persona, one an 80 ms frame of the prompt; none for no persona.

    Args:
        max_ids: how many positions of the model's window a persona may take.

    Raises:
        InvalidPersona: unreadable, or longer than `max_ids`.
    """
    cleaned = clean_persona(text)
    if cleaned is None:
        return []
    ids = encoder.encode(wrap_persona(cleaned))
    if len(ids) > max_ids:
        raise InvalidPersona(
            f"The persona takes {len(ids)} tokens; this model takes {max_ids} at most. Shorten it."
        )
    return ids
