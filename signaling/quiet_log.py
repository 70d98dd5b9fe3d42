"""Log lines that anybody outside can cause at will: the first ones, and how many more came."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

EVERY_S = 10.0


@dataclass(slots=True)
class _Kind:
    said_s: float
    unsaid: int = 0


class QuietLog:
    """Says the first of each kind, and further ones once in `EVERY_S`, with their number."""

    def __init__(self, log: logging.Logger, now: Callable[[], float]) -> None:
        """
        Args:
            now: seconds on a monotonic clock.
        """
        self._log = log
        self._now = now
        self._kinds: dict[str, _Kind] = {}

    def warning(self, kind: str, message: str) -> None:
        """
        Args:
            kind: one of a few.
        """
        now = self._now()
        known = self._kinds.get(kind)
        if known is not None and now - known.said_s < EVERY_S:
            known.unsaid += 1
            return
        more = f" ({known.unsaid} more like it before)" if known and known.unsaid else ""
        self._kinds[kind] = _Kind(now)
        self._log.warning("%s%s", message, more)
