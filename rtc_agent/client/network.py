"""Carrying real packets over a modelled network."""

from __future__ import annotations

import asyncio
import logging

from rtc_agent.client.impair import Impairment, Link
from rtc_agent.clock import Clock
from rtc_agent.media.aiortc_shim import Send

log = logging.getLogger(__name__)


class Uplink:
    """Sends each datagram when, and as often as, a link delivers it."""

    def __init__(self, spec: Impairment, clock: Clock) -> None:
        self._link = Link(spec, "up")
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self.sent = 0
        self.lost = 0
        self.first_lost_s: float | None = None
        """When the first packet to be lost was sent, on the clock."""

    def carry(self, data: bytes, send: Send) -> None:
        """To be given to `aiortc_shim.divert_media`."""
        now_s = self._clock.now()
        arrivals = self._link.carry(now_s)
        self.sent += 1
        if not arrivals:
            self.lost += 1
            self.first_lost_s = self.first_lost_s or now_s
        for when_s in arrivals:
            task = asyncio.ensure_future(self._deliver(when_s, data, send))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Forget what is still under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver(self, when_s: float, data: bytes, send: Send) -> None:
        await self._clock.sleep_until(when_s)
        try:
            await send(data)
        except ConnectionError as error:
            # The call ended while the packet was under way.
            log.debug("a packet was not sent: %s", error)


class Downlink:
    """When, and how often, a packet that came off the real network reaches the caller."""

    def __init__(self, spec: Impairment) -> None:
        self._link = Link(spec, "down")

    def arrivals(self, came_s: float) -> tuple[float, ...]:
        """Moments on the caller's clock; they may lie ahead of it."""
        return self._link.carry(came_s)
