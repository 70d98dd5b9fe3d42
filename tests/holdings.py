"""What a server holds: memory, descriptors and threads, read from Linux's /proc."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from tests.process_tree import PROC, family


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
        members = family(pid)
        for member in members:
            with contextlib.suppress(OSError):
                lines = (PROC / str(member) / "status").read_text().splitlines()
                fields = dict(line.split(":", 1) for line in lines)
                resident_kb += int(fields.get("VmRSS", "0 kB").split()[0])
                threads += int(fields["Threads"])
                descriptors += len(list((PROC / str(member) / "fd").iterdir()))
        return cls(resident_kb / 1e3, descriptors, threads, len(members))


def growth_per_hour(samples: list[float], every_s: float) -> float:
    """Slope of a straight line through samples taken so often (least squares)."""
    count = len(samples)
    middle, mean = (count - 1) / 2, sum(samples) / count
    rise = sum((at - middle) * (value - mean) for at, value in enumerate(samples))
    run = sum((at - middle) ** 2 for at in range(count))
    return rise / run * 3_600 / every_s
