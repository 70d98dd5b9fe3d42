"""What is told of a call to those who keep figures."""

from __future__ import annotations

import asyncio

from rtc_agent.call.registry import FAREWELL_S
from rtc_agent.call.state import EndReason
from rtc_agent.call.transport import TransportStats
from rtc_agent.call.watching import CallFacts
from rtc_agent.errors import RtcAgentError, ServerFull
from tests.call.fakes import FakeTransport, call_bench
from tests.engine.fakes import FakeStepper


class Leaving(FakeTransport):
    """A transport whose receive buffer is in disorder once its caller has gone."""

    gone = False

    def stats(self) -> TransportStats:
        return TransportStats(
            packets_received=9 if self.gone else 7, receive_buffer_ms=500 if self.gone else 40
        )


class Watcher:
    def __init__(self) -> None:
        self.ended: list[CallFacts] = []
        self.refused: list[RtcAgentError] = []

    def on_refused(self, error: RtcAgentError) -> None:
        self.refused.append(error)

    def on_ended(self, facts: CallFacts) -> None:
        self.ended.append(facts)


async def test_buffers_are_those_of_the_call_and_counters_those_of_its_end() -> None:
    async with call_bench() as bench:
        watcher = Watcher()
        bench.registry.watchers.append(watcher)
        call, transport = await bench.live(kind=Leaving)
        await bench.run(5, transport)
        assert isinstance(transport, Leaving)
        transport.gone = True
        call.end(EndReason.HANGUP)
        call.end(EndReason.IDLE)
    [facts] = watcher.ended
    assert facts.quality is not None and facts.reason is EndReason.HANGUP
    assert (facts.quality.packets_received, facts.quality.receive_buffer_ms) == (9, 40)
    assert facts.connected_s is not None and facts.live_s is not None
    assert facts.connected_s <= facts.live_s <= facts.age_s
    assert facts.frames >= 60


async def test_a_watcher_that_fails_does_not_keep_a_call_from_ending() -> None:
    class Broken(Watcher):
        def on_ended(self, facts: CallFacts) -> None:
            raise RuntimeError("no figures today")

    async with call_bench(FakeStepper(slots=1)) as bench:
        bench.registry.watchers += [Broken()]
        call, transport = await bench.live()
        call.end(EndReason.HANGUP)
        await asyncio.sleep(2 * FAREWELL_S)
        await bench.run(0.5)
        assert transport.closed == 1
        assert bench.engine.status().slots_free == 1


async def test_refusals_are_told_with_their_reason() -> None:
    async with call_bench(FakeStepper(slots=1)) as bench:
        watcher = Watcher()
        bench.registry.watchers.append(watcher)
        await bench.place()
        try:
            await bench.place()
        except ServerFull:
            pass
        assert [error.code for error in watcher.refused] == ["server_full"]
        assert not watcher.ended
