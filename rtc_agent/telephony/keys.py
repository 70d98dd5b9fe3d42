"""Telephone keys that are told twice, over two ways, made one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

KeySource = Literal["rtp", "info", "gateway"]
"""Within the audio (RFC 4733), by SIP INFO, or by an event of the gateway's own."""

SAME_PRESS_S = 1.0
"""Two ways of telling the same press differ by no more than this."""


@dataclass(slots=True)
class _Press:
    key: str
    at_s: float
    told_by: set[KeySource] = field(default_factory=set)


class KeyMerger:
    """Some telephones send every press both in RTP and by SIP INFO: it counts when first told."""

    def __init__(self) -> None:
        self._recent: list[_Press] = []

    def push(self, key: str, source: KeySource, now_s: float) -> bool:
        """Whether this is a press that no other way has told yet."""
        self._recent = [p for p in self._recent if now_s - p.at_s <= SAME_PRESS_S]
        for press in self._recent:
            if press.key == key and source not in press.told_by:
                press.told_by.add(source)
                return False
        self._recent.append(_Press(key, now_s, {source}))
        return True
