"""What a telephone asks of a call: keys, hold, limits of its own, and ringing until it is ready."""

from __future__ import annotations

from rtc_agent.call.limits import CallLimits
from rtc_agent.call.state import CallState, EndReason
from rtc_agent.call.transport import Transport, TransportEvents
from rtc_agent.engine.stepper import FRAME_S, SessionSpec
from tests.call.fakes import FakeTransport, call_bench
from tests.engine.fakes import FakeStepper


async def test_keys_become_an_event_in_order() -> None:
    async with call_bench() as bench:
        call, transport = await bench.live()
        call.press("1")
        call.press("#")
        notices = [m for m in transport.of("notice") if m["code"] == "dtmf"]
        assert [m["digits"] for m in notices] == ["1", "#"]


async def test_a_held_call_hears_silence_and_is_not_given_up() -> None:
    limits = CallLimits(vanished_s=8, idle_s=20)
    async with call_bench(limits=limits) as bench:
        call, transport = await bench.live()
        call.set_held(True)
        await bench.run(300)
        assert call.state is CallState.LIVE
        assert not call._heard.last.any()
        transport.hear()
        call.set_held(False)
        await bench.run(2 * FRAME_S, transport)
        assert call._heard.last.any()
        await bench.run(15, transport)
        assert call.state is CallState.LIVE
        await bench.run(10)
        assert call.reason is EndReason.PEER_VANISHED


async def test_a_call_can_have_limits_of_its_own() -> None:
    async with call_bench() as bench:

        async def connect(events: TransportEvents) -> tuple[Transport, str]:
            return FakeTransport(bench.clock, events), "answer"

        call, _ = await bench.registry.place(SessionSpec(), connect, CallLimits(connect_s=60))
        await bench.run(59)
        assert call.state is CallState.CONNECTING
        await bench.run(2)
        assert call.reason is EndReason.CONNECT_TIMEOUT


async def test_ringing_lasts_until_the_agent_is_ready_or_the_call_is_over() -> None:
    stepper = FakeStepper(pieces=50)
    async with call_bench(stepper) as bench:
        stepper.on_piece = lambda: bench.clock.advance(0.03)
        call, _ = await bench.place()
        await bench.run(0.2)
        assert not call.prepared.is_set()
        await bench.run(3)
        assert call.prepared.is_set() and call.state is CallState.CONNECTING
        other, _ = await bench.place()
        other.end(EndReason.HANGUP)
        assert other.prepared.is_set()
