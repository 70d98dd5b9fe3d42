"""The seam between the controller, which decides, and Ray, which does."""

from __future__ import annotations

from typing import Protocol

from rtc_agent.cluster.plan import Plan, Values

Holders = list[tuple[str, str]]
"""Of calls that were asked for: name of the key, address."""


class PartAway(Exception):
    """It does not answer at the moment; whoever keeps it running is at it."""


class PartGone(Exception):
    """It is no more, and does not come back."""


class Fleet(Protocol):
    """Starts, asks and ends parts of the cluster, which go by unique names."""

    async def names(self) -> list[str]:
        """Of all parts that exist, whoever started them."""
        ...

    async def start_replica(self, name: str, plan: Plan) -> None:
        """A new one, wherever there is room, now or later."""
        ...

    async def start_front(
        self, name: str, plan: Plan, port: int | None = None, node: str | None = None
    ) -> None:
        """A new one; on that host, taking over that port, if they are given."""
        ...

    async def look(self, name: str) -> Values:
        """What it says of itself. Waits for one that has no place yet.

        Raises:
            PartAway, PartGone: nothing.
        """
        ...

    async def latest_plan(self, name: str) -> Plan:
        """The last plan that it was told.

        Raises:
            PartAway, PartGone: it does not answer.
        """
        ...

    async def keep(self, name: str, plan: Plan) -> None:
        """Have it remember this plan for a controller that comes anew."""
        ...

    async def count(self, name: str, holders: Holders) -> None:
        """Have a front count what others have let in against its limits."""
        ...

    async def drain(self, name: str, limit_s: float) -> None:
        """Have it take nothing new, and end itself once what it has is over."""
        ...

    async def stop(self, name: str) -> None:
        """Have it tell its callers, and end."""
        ...

    async def end(self, name: str) -> None:
        """Remove it for good, whatever it does."""
        ...

    async def restart(self, name: str) -> None:
        """Kill one that hangs; it is started again."""
        ...

    async def want(self, plan: Plan, replicas: int) -> None:
        """Have hosts for so many replicas, where hosts come and go."""
        ...
