"""How long a stage trains: so many seconds in all, over as many runs as it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Budget:
    """Training time of one stage, counted step by step.

    Everything that changes in the course of a stage follows `progress` and not the number of steps,
    so that a stage ends well in the time that it has, however fast the machine is.

    Args:
        seconds: of the stage in all.
        run_seconds: of this run, from now and whatever it does; the stage goes on in another.
        now: the machine's clock, in seconds.
    """

    def __init__(
        self,
        seconds: float,
        run_seconds: float = math.inf,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self.spent = 0.0
        """Seconds so far, former runs included."""
        self._now = now
        self._last = now()
        self._ends = self._last + run_seconds

    @property
    def progress(self) -> float:
        """0 at the stage's start, 1 at its end."""
        return min(1.0, self.spent / self.seconds)

    @property
    def over(self) -> bool:
        """Whether the stage is done."""
        return self.spent >= self.seconds

    @property
    def stopped(self) -> bool:
        """Whether this run is to end."""
        return self.over or self._now() >= self._ends

    def start(self) -> None:
        """Begin to count: nothing before now belongs to the stage."""
        self._last = self._now()

    def lap(self) -> None:
        """Count the step that just ended."""
        now = self._now()
        self.spent += now - self._last
        self._last = now


def cosine(progress: float, step: int, *, warm_up: int, last: float) -> float:
    """A learning rate's factor: up in `warm_up` steps, then down a half cosine to `last`."""
    fall = last + (1 - last) * 0.5 * (1 + math.cos(math.pi * progress))
    return min(1.0, (step + 1) / warm_up) * fall


class Every:
    """True once in so many seconds of a budget."""

    def __init__(self, seconds: float, budget: Budget) -> None:
        self._seconds = seconds
        self._budget = budget
        self._next = budget.spent

    def due(self) -> bool:
        if self._budget.spent < self._next:
            return False
        self._next = self._budget.spent + self._seconds
        return True
