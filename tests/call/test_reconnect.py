"""A call that outlives its connection."""

from __future__ import annotations

from typing import Any

import pytest

from rtc_agent.call.call import Call
from rtc_agent.call.limits import CallLimits
from rtc_agent.call.state import CallState, EndReason
from rtc_agent.call.transport import Transport, TransportEvents
from rtc_agent.engine.stepper import FRAME_S, SessionSpec
from rtc_agent.errors import CallConflict, InvalidOffer, UnknownCall
from tests.call.fakes import CallBench, FakeTransport, call_bench
from tests.engine.fakes import FakeStepper

GRACE = CallLimits(reconnect_s=10)


class Found(FakeTransport):
    """A transport that says whether it is connected, as real ones do, and on whose clock time
    passes between two readings of it."""

    connected = True
    readings = 0

    def silent_s(self) -> float:
        self.readings += 1
        return super().silent_s() - 1e-6 * self.readings


async def live(bench: CallBench) -> tuple[Call, FakeTransport]:
    return await bench.live(may_return=True)


async def come_back(bench: CallBench, call: Call) -> FakeTransport:
    made: list[FakeTransport] = []

    async def connect(events: TransportEvents) -> tuple[Transport, str]:
        made.append(FakeTransport(bench.clock, events))
        return made[0], "second answer"

    again, answer = await bench.registry.reconnect(call.ids.session, connect)
    assert (again, answer) == (call, "second answer")
    return made[0]


async def test_a_lost_connection_keeps_slot_and_conversation_for_the_grace_time() -> None:
    async with call_bench(FakeStepper(slots=1), GRACE) as bench:
        call, old = await live(bench)
        old.events.on_closed("connection_failed")
        assert call.state is CallState.RECONNECTING
        await bench.run(5)
        assert bench.engine.status().slots_free == 0
        new = await come_back(bench, call)
        new.events.on_connected()
        new.events.on_channel("text")
        assert call.state is CallState.LIVE
        before = len(new.played)
        await bench.run(1, new)
        assert len(new.played) > before
        assert old.closed == 1
        frames = [message["frame"] for message in new.sent]
        assert frames == sorted(frames) and frames[-1] > 60
        await bench.run(20, new)
        assert call.state is CallState.LIVE


async def test_what_was_said_meanwhile_is_told_in_order_to_the_one_who_comes_back() -> None:
    stepper = FakeStepper()
    async with call_bench(stepper, GRACE) as bench:
        call, old = await live(bench)
        old.accepts = False
        old.events.on_closed("connection_failed")
        stepper.text = {0: " word"}
        await bench.run(3 * FRAME_S)
        stepper.text = {}
        new = await come_back(bench, call)
        new.events.on_connected()
        new.events.on_channel("text")
        assert len(new.of("text")) == 3
        assert new.sent[-1]["type"] == "ready"
        seqs = [message["seq"] for message in old.sent + new.sent]
        assert seqs == list(range(len(seqs)))


async def test_after_the_grace_time_the_call_ends_and_frees_its_slot() -> None:
    async with call_bench(FakeStepper(slots=1), GRACE) as bench:
        call, old = await live(bench)
        old.events.on_closed("connection_failed")
        await bench.run(11)
        assert call.reason is EndReason.CONNECTION_FAILED
        assert bench.engine.status().slots_free == 1
        with pytest.raises(UnknownCall):
            await come_back(bench, call)


async def test_the_grace_time_counts_from_the_callers_last_packet() -> None:
    async with call_bench(FakeStepper(slots=1), GRACE) as bench:
        call, _ = await live(bench)
        await bench.run(9)
        assert call.state is CallState.RECONNECTING
        await bench.run(2)
        assert call.state is CallState.ENDED
        assert bench.engine.status().slots_free == 1


@pytest.mark.parametrize("reason", ["peer_closed", "connection_failed"])
async def test_who_cannot_come_back_or_closed_on_purpose_is_not_waited_for(reason: str) -> None:
    async with call_bench(limits=GRACE) as bench:
        call, transport = await bench.live(may_return=reason == "peer_closed")
        transport.events.on_closed(reason)
        assert call.state is CallState.ENDED


async def test_a_connection_that_never_came_about_is_not_waited_for() -> None:
    async with call_bench(limits=GRACE) as bench:
        call, transport = await bench.place(may_return=True)
        transport.events.on_closed("connection_failed")
        assert call.state is CallState.ENDED


async def test_a_vanished_peer_whose_packets_come_again_goes_on_by_itself() -> None:
    async with call_bench(limits=GRACE) as bench:
        call, transport = await bench.live(may_return=True, kind=Found)
        await bench.run(9)
        assert call.state is CallState.RECONNECTING
        await bench.run(2, transport)
        assert call.state is CallState.LIVE
        await bench.run(5, transport)
        assert call.state is CallState.LIVE


async def test_a_vanished_peer_that_stays_silent_is_let_go_though_its_connection_stands() -> None:
    async with call_bench(FakeStepper(slots=1), GRACE) as bench:
        call, _ = await bench.live(may_return=True, kind=Found)
        await bench.run(9)
        assert call.state is CallState.RECONNECTING
        await bench.run(11)
        assert call.reason is EndReason.CONNECTION_FAILED
        assert bench.engine.status().slots_free == 1


async def test_moving_a_live_call_makes_the_old_connection_mute() -> None:
    """The client closes its old connection after the new one is made: that ends nothing."""
    async with call_bench(limits=GRACE) as bench:
        call, old = await live(bench)
        new = await come_back(bench, call)
        assert call.state is CallState.RECONNECTING
        old.events.on_closed("peer_closed")
        old.events.on_message("text", '{"type": "hangup"}')
        new.events.on_connected()
        await bench.run(1, new)
        assert call.state is CallState.LIVE
        assert new.played and old.closed == 1


async def test_a_call_may_be_moved_before_it_first_connected() -> None:
    async with call_bench(limits=GRACE) as bench:
        call, _ = await bench.place(may_return=True)
        new = await come_back(bench, call)
        assert call.state is CallState.CONNECTING
        new.events.on_connected()
        await bench.run(15, new)
        assert call.state is CallState.LIVE


async def test_an_offer_that_cannot_be_answered_leaves_the_call_as_it_was() -> None:
    async with call_bench(limits=GRACE) as bench:
        call, transport = await live(bench)

        async def refuse(events: TransportEvents) -> tuple[Transport, str]:
            raise InvalidOffer("no")

        with pytest.raises(InvalidOffer):
            await bench.registry.reconnect(call.ids.session, refuse)
        await bench.run(1, transport)
        assert call.state is CallState.LIVE and transport.closed == 0


async def test_a_call_that_ends_while_it_is_moved_leaves_nothing_behind() -> None:
    async with call_bench(limits=GRACE) as bench:
        call, _ = await live(bench)
        made: list[FakeTransport] = []

        async def connect(events: TransportEvents) -> tuple[Transport, str]:
            made.append(FakeTransport(bench.clock, events))
            call.end(EndReason.HANGUP)
            return made[0], "late"

        with pytest.raises(UnknownCall):
            await bench.registry.reconnect(call.ids.session, connect)
        await bench.run(1)
        assert made[0].closed == 1


async def test_a_call_that_does_not_outlive_its_connection_cannot_be_moved() -> None:
    async with call_bench() as bench:
        call, _ = await live(bench)

        async def connect(events: TransportEvents) -> Any:
            raise AssertionError("not to be asked")

        with pytest.raises(CallConflict):
            await bench.registry.reconnect(call.ids.session, connect)


async def test_another_persona_begins_the_call_again_in_its_slot() -> None:
    stepper = FakeStepper(slots=1)
    async with call_bench(stepper) as bench:
        call, transport = await bench.live(dialects={"oai-events": wish})
        call.on_channel("oai-events")
        transport.events.on_message("oai-events", "another")
        assert call.state is CallState.OPENING
        await bench.run(3 * FRAME_S)
        assert call.state is CallState.LIVE
        assert stepper.specs[-1] == SessionSpec(voice="V", persona="Be brief.")
        assert len(transport.of("ready")) == 2


async def test_late_another_persona_is_refused() -> None:
    stepper = FakeStepper(slots=1)
    async with call_bench(stepper) as bench:
        call, transport = await bench.live(dialects={"oai-events": wish})
        call.on_channel("oai-events")
        await bench.run(3, transport)
        transport.events.on_message("oai-events", "another")
        assert call.state is CallState.LIVE
        assert transport.of("notice")[-1]["code"] == "too_late"
        assert len(stepper.specs) == 1


def wish() -> Any:
    from rtc_agent.protocol.events import Configure, Received

    class Wishing:
        def encode(self, event: Any) -> list[str]:
            return []

        def reopen(self) -> list[str]:
            return []

        def decode(self, message: str, frame: int) -> Received:
            return Received(commands=[Configure(voice="V", persona="Be brief.")])

    return Wishing()
