"""How often somebody may do something: token buckets, for many at once and in bounded memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rtc_agent.clock import Clock

MAX_BUCKETS = 10_000
"""Beyond this the one used longest ago is forgotten, and begins anew with a full bucket."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float


class Rate:
    """`per_minute` tokens come in evenly, and up to `burst` are kept; each use takes one."""

    def __init__(self, clock: Clock, per_minute: float, burst: float | None = None) -> None:
        """
        Args:
            per_minute: 0 does not limit.
            burst: a minute's worth if left out.
        """
        self._clock = clock
        self._per_s = per_minute / 60
        self._burst = max(1.0, per_minute if burst is None else burst)
        self._buckets: dict[str, _Bucket] = {}

    def take(self, who: str) -> float:
        """Take a token. 0 if there was one, else the seconds until there is."""
        if self._per_s <= 0:
            return 0.0
        bucket = self._filled(who)
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self._per_s
        bucket.tokens -= 1
        return 0.0

    def spend(self, who: str) -> None:
        """A token was taken elsewhere, whether or not there was one here. What is owed is bounded,
        so that it is worked off in the time that a full bucket takes."""
        if self._per_s > 0:
            bucket = self._filled(who)
            bucket.tokens = max(bucket.tokens - 1, 1 - self._burst)

    def _filled(self, who: str) -> _Bucket:
        now = self._clock.now()
        bucket = self._buckets.pop(who, None)
        if bucket is None:
            bucket = _Bucket(self._burst, now)
            if len(self._buckets) >= MAX_BUCKETS:
                del self._buckets[next(iter(self._buckets))]
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at_s) * self._per_s)
        bucket.at_s = now
        self._buckets[who] = bucket
        return bucket

    def __len__(self) -> int:
        return len(self._buckets)


def whole_seconds(seconds: float) -> int:
    """For `Retry-After`."""
    return max(1, math.ceil(seconds))
