"""What is told of loudness, and only to those who can still use it; and who listens in."""

from __future__ import annotations

import numpy as np
import pytest

from rtc_agent.call.call import LEVELS_EVERY
from rtc_agent.call.listener import Listener
from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.protocol.events import CallEvent, Levels, Received
from tests.call.fakes import FakeTransport, call_bench
from tests.engine.fakes import FakeStepper
from tests.virtual_clock import VirtualClock


class Noting:
    """A dialect that keeps events and has a word for each."""

    told: list[CallEvent]

    def __init__(self) -> None:
        type(self).told = []

    def encode(self, event: CallEvent) -> list[str]:
        self.told.append(event)
        return ['{"type": "x"}']

    def reopen(self) -> list[str]:
        return []

    def decode(self, message: str, frame: int) -> Received:
        return Received()


def levels() -> list[Levels]:
    return [event for event in Noting.told if isinstance(event, Levels)]


async def test_levels_come_every_few_frames_between_nothing_and_full_scale() -> None:
    async with call_bench(FakeStepper()) as bench:
        call, transport = await bench.live(dialects={"chat": Noting})
        call.on_channel("chat")
        Noting.told.clear()
        await bench.run(0.8, transport)
        assert len(levels()) == pytest.approx(10 / LEVELS_EVERY, abs=1)
        assert all(0 <= level.caller <= 1 and 0 <= level.agent <= 1 for level in levels())
        assert levels()[-1].agent == 1


async def test_levels_do_not_wait_for_a_peer_that_does_not_read() -> None:
    async with call_bench(FakeStepper()) as bench:
        call, transport = await bench.live(dialects={"chat": Noting})
        call.on_channel("chat")
        transport.accepts = False
        call._notice("dtmf", "something that waits")
        Noting.told.clear()
        await bench.run(0.8, transport)
        assert levels() == []


async def test_listeners_hear_both_limited_to_full_scale_until_the_call_ends() -> None:
    async with call_bench(FakeStepper()) as bench:
        call, transport = await bench.live()
        listener, ear = Listener(), FakeTransport(VirtualClock(), call.line)
        listener.attach(ear)
        call.add_listener(listener)
        await bench.run(0.4, transport)
        assert len(ear.played) >= 4
        assert all(len(pcm) == FRAME_SAMPLES and np.abs(pcm).max() <= 1 for pcm in ear.played)
        count = len(ear.played)
        listener.on_closed("peer_closed")
        await bench.run(1.0, transport)
        assert len(ear.played) == count
        assert call.listeners == []
