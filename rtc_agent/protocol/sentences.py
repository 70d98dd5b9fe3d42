"""Streaming text cut into whole sentences."""

from __future__ import annotations

import re

_END = re.compile(r"""[.!?…。！？]+["'”’)\]]*(?=\s)|[。！？]+""")
"""A sentence's end shows only with the blank that follows: `3.` may become `3.5`."""


class Sentences:
    """Takes deltas, gives sentences; joined with blanks they are the text that went in."""

    def __init__(self) -> None:
        self._rest = ""

    def push(self, delta: str) -> list[str]:
        """The sentences that this piece of text completes."""
        self._rest += delta
        done = []
        while (match := _END.search(self._rest)) is not None:
            sentence, self._rest = self._rest[: match.end()], self._rest[match.end() :]
            if sentence.strip():
                done.append(sentence.strip())
        return done

    def flush(self) -> list[str]:
        """What is left, as the last sentence; empty if it is only blanks."""
        rest, self._rest = self._rest.strip(), ""
        return [rest] if rest else []
