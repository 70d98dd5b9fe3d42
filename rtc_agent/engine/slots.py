"""Who has which slot. A slot's generation tells one session's output from the next one's."""

from __future__ import annotations

from dataclasses import dataclass

from rtc_agent.errors import ServerFull


@dataclass(frozen=True, slots=True)
class Lease:
    """A slot held by one session. Another lease of the same slot has another generation."""

    slot: int
    generation: int


class SlotTable:
    """A fixed number of slots, given out lowest first."""

    def __init__(self, slots: int) -> None:
        if slots < 1:
            raise ValueError(f"a slot table needs at least one slot, not {slots}")
        self._generation = [0] * slots
        self._taken = [False] * slots

    @property
    def size(self) -> int:
        return len(self._taken)

    @property
    def free(self) -> int:
        return self._taken.count(False)

    def take(self) -> Lease:
        """The lowest free slot.

        Raises:
            ServerFull: there is none.
        """
        for slot, taken in enumerate(self._taken):
            if not taken:
                self._taken[slot] = True
                self._generation[slot] += 1
                return Lease(slot, self._generation[slot])
        raise server_full(self.size)

    def holds(self, lease: Lease) -> bool:
        """Whether that very session still has the slot."""
        return self._taken[lease.slot] and self._generation[lease.slot] == lease.generation

    def release(self, lease: Lease) -> None:
        """Free the slot, if that session still has it; a stale lease frees nothing."""
        if self.holds(lease):
            self._taken[lease.slot] = False


def server_full(slots: int) -> ServerFull:
    """The refusal where every one of so many slots is taken."""
    held = (
        "the one call it can hold is"
        if slots == 1
        else f"all {slots} calls it can hold at once are"
    )
    return ServerFull(
        f"This server is full: {held} in progress. Try again in a few seconds.",
        retry_after_s=5,
    )
