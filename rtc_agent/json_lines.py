"""A file to which lines are added, in order and off the event loop."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

log = logging.getLogger(__name__)

MAX_WAITING = 10_000
"""Lines for a disk that does not take any; what is newer is dropped, and counted in the log."""


class LineFile:
    """Appends lines. A file that cannot be written to is said in the log and hurts nobody."""

    def __init__(self, path: Path, what: str) -> None:
        """
        Args:
            what: a line's name, for the log.
        """
        self._path = path
        self._what = what
        self._waiting: list[str] = []
        self._dropped = 0
        self._writer: asyncio.Task[None] | None = None

    def add(self, line: str) -> None:
        """Append a line, soon."""
        if len(self._waiting) >= MAX_WAITING:
            self._dropped += 1
            return
        self._waiting.append(line + "\n")
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def aclose(self) -> None:
        """Return once every line is in the file, or was lost."""
        while self._writer is not None and not self._writer.done():
            await self._writer

    async def _write(self) -> None:
        while self._waiting:
            lines, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(_append, self._path, "".join(lines))
            except OSError as error:
                log.error(
                    "%s could not be written to %s: %s", self._what, self._path, error.strerror
                )
            if self._dropped:
                log.error(
                    "%d times no %s was kept: the disk is too slow", self._dropped, self._what
                )
                self._dropped = 0


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
