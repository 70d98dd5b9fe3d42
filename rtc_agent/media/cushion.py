"""How long agent audio waits before it is sent, learned from how punctual the ticks are."""

from __future__ import annotations

from collections import deque

MARGIN_S = 0.004
"""Kept between a frame's coming and its sending: a timer is late by so much now and then."""
_MARGIN_SHARE = 0.25
"""And so much of the spread of waits."""
WINDOW_FRAMES = 125
_WARM_UP_FRAMES = 18
_IGNORED = 0.02
"""Of waits, the least: a hitch now and then. None is let pass before so many waits are known that
it is less than this share: the first seconds of a call would else be judged by their best."""
_RECENT_FRAMES = 12
_BACKLOG_S = 0.040
"""Waits that were all longer than before by more than this, for a second, are a backlog: the ticks
caught up after a stall. There is no need to see a whole window of them."""
_ROOM_S = 0.002


class CushionController:
    """Watches how long before its sending each piece of audio comes."""

    def __init__(self, extra_s: float = 0.0) -> None:
        """`extra_s` is waited beyond what punctuality asks for."""
        self._extra_s = extra_s
        self._waits: deque[float] = deque(maxlen=WINDOW_FRAMES)
        self._added_s = 0.0
        self._low_s = 0.0
        self._margin_s = MARGIN_S
        self._recent_low_s = 0.0

    def observe(self, wait_s: float) -> None:
        """A piece came so long before its first sample was to be sent; negative if after."""
        self._waits.append(wait_s - self._added_s)
        ordered = sorted(self._waits)
        self._low_s = ordered[int(len(ordered) * _IGNORED)]
        self._margin_s = MARGIN_S + _MARGIN_SHARE * (ordered[len(ordered) // 2] - self._low_s)
        recent = list(self._waits)[-_RECENT_FRAMES:]
        self._recent_low_s = min(recent) - _BACKLOG_S

    def added(self, seconds: float) -> None:
        """Whatever comes next waits so much longer (or, negative, shorter) than before."""
        self._added_s += seconds

    def error_s(self) -> float:
        """How much sooner audio could be sent; negative if it should be sent later."""
        if len(self._waits) < _WARM_UP_FRAMES:
            return 0.0
        low = max(self._low_s, self._recent_low_s) + self._added_s
        error = low - self._margin_s - self._extra_s
        return 0.0 if -self._margin_s / 2 < error < _ROOM_S else error
