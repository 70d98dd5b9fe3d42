"""Percentiles, as every report gives them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def percentiles(values: Iterable[float]) -> dict[str, float | int | None]:
    """`p50`, `p95`, `p99`, `max` to a tenth and `n`; None where there are no values."""
    known = np.array(list(values), dtype=np.float64)
    if len(known) == 0:
        return {"p50": None, "p95": None, "p99": None, "max": None, "n": 0}
    return {
        "p50": round(float(np.percentile(known, 50)), 1),
        "p95": round(float(np.percentile(known, 95)), 1),
        "p99": round(float(np.percentile(known, 99)), 1),
        "max": round(float(known.max()), 1),
        "n": len(known),
    }
