"""A picture of a probe: when each chirp was heard, when packets came, where sound was missing."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from rtc_agent.client.measurement import Measurement
from rtc_agent.errors import InvalidRequest, MissingDependency


def require() -> Any:
    """matplotlib's figures. Raises MissingDependency."""
    try:
        return importlib.import_module("matplotlib.figure")
    except ImportError:
        raise MissingDependency(
            "The plot needs matplotlib: pip install 'rtc-agent[tools]'."
        ) from None


def plot(measured: Measurement, title: str, path: Path) -> None:
    """Write a PNG.

    Raises:
        MissingDependency: matplotlib is not installed.
        InvalidRequest: the file cannot be written.
    """
    figure = require().Figure(figsize=(10, 6), dpi=120, layout="constrained")
    delays, packets = figure.subplots(2, 1, sharex=True)
    heard = [
        (c.said_s, c.mouth_to_ear_ms) for c in measured.chirps if c.mouth_to_ear_ms is not None
    ]
    delays.plot(*zip(*heard, strict=True) if heard else ([], []), "o-", markersize=3, linewidth=0.8)
    for chirp in measured.chirps:
        if chirp.mouth_to_ear_ms is None:
            delays.axvline(chirp.said_s, color="tab:red", linewidth=0.8)
    delays.set_ylim(bottom=0, top=1.15 * max(measured.delays_ms, default=1.0))
    delays.set_ylabel("mouth to ear (ms)")
    delays.set_title(f"{title}   (red: chirp lost)")
    times = [at for at, _ in measured.arrivals_s]
    # Against the earliest of all, so that a step to earlier shows as well.
    late_s = [late for _, late in measured.arrivals_s]
    lateness_ms = [(late - min(late_s)) * 1e3 for late in late_s]
    packets.plot(times, lateness_ms, ".", markersize=2)
    for hole in measured.dropouts:
        packets.axvspan(hole.start_s, hole.start_s + hole.length_s, color="tab:orange", alpha=0.6)
    packets.set_ylim(bottom=0)
    packets.set_ylabel("packet lateness (ms)")
    packets.set_xlabel("seconds   (orange: no sound)")
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}.") from error
