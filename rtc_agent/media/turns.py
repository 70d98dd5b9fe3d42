"""Who sends when: the calls of a process one after another, not all at once.

The engine's frames come to all calls at the same moment. Were their packets due at the same moment
too, the last would wait for all others to be encoded, behind whatever else the event loop has to
do. Spread by about what one costs, each is sent as soon as before and nothing waits for them all.
"""

from __future__ import annotations

import heapq

STEP_S = 0.0003
"""From one turn to the next: about what it takes to encode a packet and send it."""
TURNS = 12
"""More calls share turns: the last one must not wait for much of a packet's 20 ms."""


class Turns:
    """The lowest that is free goes first, so that few calls wait for nobody."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._taken = 0

    def take(self) -> int:
        """A number for `give_back`; see `wait_s`."""
        if self._free:
            return heapq.heappop(self._free)
        self._taken += 1
        return self._taken - 1

    def give_back(self, turn: int) -> None:
        """Free for another call."""
        heapq.heappush(self._free, turn)


def wait_s(turn: int) -> float:
    """How long after the first turn a turn is."""
    return turn % TURNS * STEP_S


of_this_process = Turns()
