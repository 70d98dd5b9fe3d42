"""How many replicas the load asks for. Hosts for them are Ray's autoscaler's to find."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rtc_agent.cluster.settings import ClusterSettings


def replicas_for(calls: int, slots: int, occupancy: float) -> int:
    """Fewest replicas on which so many calls take no more than that share of the slots.

    Args:
        slots: calls that one replica holds; 0: not known yet.
    """
    return math.ceil(calls / (slots * occupancy)) if slots else 0


@dataclass(slots=True)
class Autoscaler:
    """Grows at once and shrinks slowly: a caller who is turned away is dearer than an idle GPU."""

    few_since_s: float | None = None
    """Since when fewer replicas would have done."""

    def wanted(
        self, settings: ClusterSettings, replicas: int, calls: int, slots: int, now_s: float
    ) -> int:
        """How many replicas there are to be, where there are `replicas` now.

        Args:
            slots: calls that one replica holds; 0: not known yet.
        """
        if settings.min_replicas is None or not slots:
            return settings.within(replicas)
        needed = settings.within(replicas_for(calls, slots, settings.occupancy))
        if needed >= replicas:
            self.few_since_s = None
            return needed
        if self.few_since_s is None:
            self.few_since_s = now_s
        if now_s - self.few_since_s < settings.scale_in_after_s:
            return replicas
        self.few_since_s = now_s
        return replicas - 1
