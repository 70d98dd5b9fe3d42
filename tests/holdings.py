"""What a server holds: memory, descriptors, threads and shared memory, read from Linux's /proc."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Holdings:
    """Of a process and all that descend from it, at one moment."""

    resident_mb: float
    descriptors: int
    threads: int
    processes: int

    @classmethod
    def of(cls, pid: int) -> Holdings:
        resident_kb = descriptors = threads = 0
        family = descendants(pid)
        for member in family:
            with contextlib.suppress(OSError):
                lines = (PROC / str(member) / "status").read_text().splitlines()
                fields = dict(line.split(":", 1) for line in lines)
                resident_kb += int(fields.get("VmRSS", "0 kB").split()[0])
                threads += int(fields["Threads"])
                descriptors += len(list((PROC / str(member) / "fd").iterdir()))
        return cls(resident_kb / 1e3, descriptors, threads, len(family))


def descendants(pid: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for folder in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    family = [pid]
    for member in family:
        family.extend(children.get(member, ()))
    return family


def growth_per_hour(samples: list[float], every_s: float) -> float:
    """Slope of a straight line through samples taken so often (least squares)."""
    count = len(samples)
    middle, mean = (count - 1) / 2, sum(samples) / count
    rise = sum((at - middle) * (value - mean) for at, value in enumerate(samples))
    run = sum((at - middle) ** 2 for at in range(count))
    return rise / run * 3_600 / every_s
