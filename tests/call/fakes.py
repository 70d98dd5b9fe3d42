"""A transport without a network, and a bench with a whole call on a virtual clock."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from rtc_agent.call.call import Call
from rtc_agent.call.limits import CallLimits
from rtc_agent.call.registry import CallRegistry
from rtc_agent.call.transport import Transport, TransportEvents, TransportStats
from rtc_agent.engine.client import FrameSource
from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.stepper import FRAME_S, Pcm, SessionSpec
from tests.engine.fakes import FakeStepper, NumberedSource
from tests.virtual_clock import InlineRunner, VirtualClock


class FakeTransport:
    """Records what is played and sent; its peer says what the test makes it say."""

    def __init__(self, clock: VirtualClock, events: TransportEvents) -> None:
        self.events = events
        self.numbered = NumberedSource()
        self.played: list[Pcm] = []
        self.sent: list[dict[str, Any]] = []
        self.accepts = True
        self.packets_sent = 0
        self.closed = 0
        self.heard_s = clock.now()
        self._clock = clock

    @property
    def source(self) -> FrameSource:
        return self.numbered

    def play(self, pcm: Pcm) -> None:
        self.played.append(pcm)
        self.packets_sent += 4

    def flush(self) -> None:
        self.played.clear()

    def send(self, label: str, message: str) -> bool:
        if self.accepts:
            self.sent.append(json.loads(message))
        return self.accepts

    def silent_s(self) -> float:
        return self._clock.now() - self.heard_s

    def stats(self) -> TransportStats:
        return TransportStats(packets_received=7, packets_sent=self.packets_sent)

    async def aclose(self) -> None:
        self.closed += 1

    def hear(self) -> None:
        """Something arrives from the peer."""
        self.heard_s = self._clock.now()

    def of(self, type_: str) -> list[dict[str, Any]]:
        return [message for message in self.sent if message["type"] == type_]


class CallBench:
    """A registry over a fake stepper, and the calls placed in it."""

    def __init__(self, stepper: FakeStepper, limits: CallLimits) -> None:
        self.stepper = stepper
        self.clock = VirtualClock()
        self.engine = LocalEngine(stepper, self.clock, InlineRunner())
        self.registry = CallRegistry(self.engine, limits, self.clock)

    async def place(
        self, spec: SessionSpec | None = None, kind: type[FakeTransport] | None = None, **how: Any
    ) -> tuple[Call, FakeTransport]:
        """A call over a fake transport; `how` goes to `CallRegistry.place`."""
        made: list[FakeTransport] = []

        async def connect(events: TransportEvents) -> tuple[Transport, str]:
            made.append((kind or FakeTransport)(self.clock, events))
            return made[0], "answer"

        call, answer = await self.registry.place(spec or SessionSpec(), connect, **how)
        assert answer == "answer"
        return call, made[0]

    async def live(self, **how: Any) -> tuple[Call, FakeTransport]:
        call, transport = await self.place(**how)
        call.on_connected()
        call.on_channel("text")
        await self.run(2.5 * FRAME_S)
        return call, transport

    async def run(self, seconds: float, *heard: FakeTransport) -> None:
        """Let time pass; packets arrive from the peers of these transports all along."""
        end = self.clock.now() + seconds
        while self.clock.now() < end - 1e-9:
            for transport in heard:
                transport.hear()
            await self.clock.run_for(min(0.5, end - self.clock.now()))


@contextlib.asynccontextmanager
async def call_bench(
    stepper: FakeStepper | None = None, limits: CallLimits | None = None
) -> AsyncIterator[CallBench]:
    bench = CallBench(stepper or FakeStepper(), limits or CallLimits())
    bench.engine.start()
    bench.registry.start()
    try:
        yield bench
    finally:
        await bench.registry.aclose(1)
        await bench.engine.aclose()
