"""Things promised before a call is made: an id to a session's wishes, for a while."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rtc_agent.clock import Clock

T = TypeVar("T")

MAX_ENTRIES = 1_000
"""Beyond this the one that would expire first is forgotten."""


@dataclass(slots=True)
class _Entry(Generic[T]):
    value: T
    expires_s: float


class SessionTable(Generic[T]):
    """Values by unguessable ids, each until it expires; bounded."""

    def __init__(self, clock: Clock, prefix: str = "", in_use: Callable[[T], bool] | None = None):
        """
        Args:
            prefix: what every id begins with.
            in_use: whether a value is to be kept past its time.
        """
        self._clock = clock
        self._prefix = prefix
        self._in_use = in_use or (lambda value: False)
        self._entries: dict[str, _Entry[T]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, value: T, ttl_s: float) -> str:
        """Keep a value for `ttl_s` seconds; its id."""
        self._forget()
        if len(self._entries) >= MAX_ENTRIES:
            del self._entries[min(self._entries, key=lambda i: self._entries[i].expires_s)]
        entry_id = self._prefix + secrets.token_urlsafe(24)
        self._entries[entry_id] = _Entry(value, self._clock.now() + ttl_s)
        return entry_id

    def get(self, entry_id: str) -> T | None:
        """The value, if there is one of that id and its time has not passed."""
        entry = self._entries.get(entry_id)
        if entry is None or self._expired(entry):
            return None
        return entry.value

    def _expired(self, entry: _Entry[T]) -> bool:
        return entry.expires_s <= self._clock.now() and not self._in_use(entry.value)

    def _forget(self) -> None:
        for entry_id in [i for i, entry in self._entries.items() if self._expired(entry)]:
            del self._entries[entry_id]
