"""Conversation items: what was said, in the order it was said, for clients that keep a history."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any, Literal

KEPT_ITEMS = 200
"""Items that can still be retrieved; older ones are forgotten."""


@dataclass(slots=True)
class Item:
    """A message of the caller or the agent."""

    id: str
    role: Literal["user", "assistant"]
    beta: bool
    status: Literal["in_progress", "completed", "incomplete"] = "in_progress"
    transcript: str | None = None
    """None for the caller, whose speech is not written down."""
    previous: str | None = None

    def describe(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "message",
            "status": self.status,
            "role": self.role,
            "content": self._content(),
        }

    def _content(self) -> list[dict[str, Any]]:
        if self.role == "user":
            return [{"type": "input_audio", "transcript": None}]
        if self.status == "in_progress":
            return []
        kind = "audio" if self.beta else "output_audio"
        return [{"type": kind, "transcript": self.transcript or ""}]


class Items:
    """The items of one conversation."""

    def __init__(self, prefix: str, beta: bool) -> None:
        """`prefix` tells this conversation's ids from every other's."""
        self._prefix = prefix
        self._beta = beta
        self._count = 0
        self._last: str | None = None
        self._kept: collections.OrderedDict[str, Item] = collections.OrderedDict()

    def add(self, role: Literal["user", "assistant"]) -> Item:
        self._count += 1
        item = Item(f"item_{self._prefix}_{self._count}", role, self._beta, previous=self._last)
        self._last = item.id
        self._kept[item.id] = item
        if len(self._kept) > KEPT_ITEMS:
            self._kept.popitem(last=False)
        return item

    def get(self, item_id: object) -> Item | None:
        return self._kept.get(item_id) if isinstance(item_id, str) else None
