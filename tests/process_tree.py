"""Processes and what they have started, read from Linux's /proc."""

from __future__ import annotations

import contextlib
from pathlib import Path

PROC = Path("/proc")


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for folder in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            children.setdefault(int(_stat(int(folder.name))[1]), []).append(int(folder.name))
    found = [pid]
    for member in found:
        found.extend(children.get(member, ()))
    return found


def command_line(pid: int) -> str:
    """Its words, each ended by a zero byte; empty for one that is gone."""
    try:
        return (PROC / str(pid) / "cmdline").read_text()
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and not only what its parent has not asked for yet."""
    try:
        return _stat(pid)[0] != "Z"
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """Fields from the state on; the name before them may hold anything."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
