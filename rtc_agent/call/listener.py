"""Somebody who listens in on a call, unheard: a supervisor."""

from __future__ import annotations

import numpy as np

from rtc_agent.call.transport import Transport
from rtc_agent.engine.stepper import Pcm


class Listener:
    """The events of a listener's transport, and what it is given to hear."""

    def __init__(self) -> None:
        self._transport: Transport | None = None
        self.over = False
        """The listener left, or the call ended."""

    def attach(self, transport: Transport) -> None:
        self._transport = transport

    def hear(self, caller: Pcm, agent: Pcm) -> None:
        """One frame of both, mixed; the sum is limited to full scale."""
        if self._transport is not None and not self.over:
            self._transport.play(np.clip(caller + agent, -1.0, 1.0))

    async def aclose(self) -> None:
        self.over = True
        if self._transport is not None:
            await self._transport.aclose()

    def on_connected(self) -> None:
        pass

    def on_closed(self, reason: str) -> None:
        self.over = True

    def on_channel(self, label: str) -> None:
        pass

    def on_message(self, label: str, message: str) -> None:
        pass
