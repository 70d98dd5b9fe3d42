"""Times as their percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of milliseconds."""

    p50: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        p50, p99 = np.percentile(values, (50, 99))
        return cls(round(float(p50), 3), round(float(p99), 3), round(max(values), 3))
