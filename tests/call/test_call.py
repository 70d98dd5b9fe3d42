"""One call on a virtual clock: its states, its messages, its limits, its endings."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from dataclasses import replace

import numpy as np
import pytest

from rtc_agent.call.limits import CallLimits
from rtc_agent.call.registry import FAREWELL_S
from rtc_agent.call.state import CallState, EndReason
from rtc_agent.call.transport import TransportEvents
from rtc_agent.call.watching import CallFacts
from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES, Pcm, SessionSpec
from rtc_agent.errors import (
    EngineFailed,
    RtcAgentError,
    ServerDraining,
    ServerFull,
    UnknownCall,
)
from tests.call.fakes import FakeTransport, call_bench
from tests.engine.fakes import FakeStepper


async def test_a_call_goes_live_once_it_is_connected_and_prepared() -> None:
    async with call_bench(FakeStepper(pieces=3)) as bench:
        call, transport = await bench.place()
        await bench.run(0.2)
        assert call.state is CallState.CONNECTING
        assert transport.numbered.reserved == 0
        call.on_connected()
        call.on_channel("text")
        assert call.state is CallState.LIVE
        await bench.run(5 * FRAME_S)
        assert len(transport.played) == 5
        ready = transport.sent[0]
        assert ready["type"] == "ready" and ready["agent"] == "fake" and ready["seq"] == 0


async def test_a_call_connected_first_waits_for_the_agent() -> None:
    stepper = FakeStepper(pieces=50)
    async with call_bench(stepper) as bench:
        stepper.on_piece = lambda: bench.clock.advance(0.03)
        call, transport = await bench.place()
        call.on_connected()
        await bench.run(0.3)
        assert call.state is CallState.OPENING
        assert not transport.played
        await bench.run(3, transport)
        assert call.state is CallState.LIVE


async def test_messages_wait_for_the_channel_and_keep_their_order() -> None:
    stepper = FakeStepper()
    async with call_bench(stepper) as bench:
        call, transport = await bench.place()
        call.on_connected()
        stepper.text = {0: "word "}
        await bench.run(10 * FRAME_S, transport)
        assert not transport.sent
        call.on_channel("text")
        texts = transport.of("text")
        assert [m["frame"] for m in texts] == list(range(len(texts)))
        assert [m["seq"] for m in transport.sent] == list(range(len(transport.sent)))
        assert transport.sent[0]["type"] == "ready"
        assert all(m["t_ms"] == m["frame"] * 80 for m in transport.sent)


async def test_a_peer_that_does_not_read_costs_bounded_memory() -> None:
    stepper = FakeStepper()
    async with call_bench(stepper) as bench:
        call, transport = await bench.live()
        transport.accepts = False
        stepper.text = {0: "x"}
        await bench.run(60, transport)
        assert call._channels.dropped > 0
        transport.accepts = True
        await bench.run(1, transport)
        sequence = [m["seq"] for m in transport.sent]
        assert sequence == sorted(set(sequence))
        assert len(sequence) < 400


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ({"type": "ping", "id": 7}, {"type": "pong", "id": 7}),
        ({"type": "dtmf", "digits": "12#"}, {"type": "notice", "code": "dtmf"}),
        ({"type": "persona", "text": "x"}, {"type": "notice", "code": "unknown_message"}),
        ({"type": "dtmf", "digits": "x"}, {"type": "notice", "code": "unknown_message"}),
        ([], {"type": "notice", "code": "unknown_message"}),
    ],
)
async def test_every_message_is_answered(message: object, answer: dict[str, object]) -> None:
    async with call_bench() as bench:
        call, transport = await bench.live()
        call.on_message("text", json.dumps(message))
        assert answer.items() <= transport.sent[-1].items()


@pytest.mark.parametrize("message", ["", "{", "\x00", '"' + "[" * 50_000, "null", "[" * 50_000])
async def test_garbage_is_answered_with_a_notice(message: str) -> None:
    async with call_bench() as bench:
        call, transport = await bench.live()
        call.on_message("text", message)
        assert transport.sent[-1]["code"] == "unknown_message"
        assert call.state is CallState.LIVE


async def test_hanging_up_frees_the_slot_and_closes_the_transport_after_a_farewell() -> None:
    async with call_bench(FakeStepper(slots=1)) as bench:
        call, transport = await bench.live()
        call.on_message("text", '{"type":"hangup"}')
        assert transport.of("ended")[0]["reason"] == "hangup"
        await bench.run(FRAME_S)
        assert bench.engine.status().slots_free == 1
        assert len(bench.registry) == 0
        await asyncio.sleep(FAREWELL_S * 1.5)
        assert transport.closed == 1


async def test_nothing_keeps_a_call_that_is_over() -> None:
    async with call_bench(FakeStepper(slots=1)) as bench:
        call, transport = await bench.live()
        await bench.run(1.0, transport)
        call.end(EndReason.HANGUP)
        await asyncio.sleep(FAREWELL_S * 1.5)
        await bench.run(1.0)
        ended = weakref.ref(call)
        del call, transport
        gc.collect()
        assert ended() is None, gc.get_referrers(ended())


async def test_a_muted_caller_is_not_heard_even_if_packets_go_on() -> None:
    stepper = FakeStepper()
    async with call_bench(stepper) as bench:
        heard: list[float] = []
        step = stepper.step

        def listen(pcm: Pcm, live: np.ndarray) -> object:
            heard.append(float(pcm[0].max()))
            return step(pcm, live)

        stepper.step = listen  # type: ignore[assignment,method-assign]
        call, transport = await bench.live()
        await bench.run(3 * FRAME_S, transport)
        call.on_message("text", '{"type":"mute","muted":true}')
        await bench.run(3 * FRAME_S, transport)
        call.on_message("text", '{"type":"mute","muted":false}')
        await bench.run(2 * FRAME_S, transport)
        muted = [index for index, value in enumerate(heard) if index and value == 0]
        assert len(muted) == 3
        assert heard[-1] == transport.numbered.number - 1


async def test_an_offer_never_followed_up_ends_within_its_limit() -> None:
    async with call_bench(FakeStepper(slots=1)) as bench:
        call, _ = await bench.place()
        await bench.run(14)
        assert call.reason is None
        await bench.run(1.5)
        assert call.reason is EndReason.CONNECT_TIMEOUT
        await bench.run(FRAME_S)
        assert bench.engine.status().slots_free == 1


async def test_a_vanished_peer_is_gone_within_ten_seconds() -> None:
    async with call_bench() as bench:
        call, transport = await bench.live()
        await bench.run(60, transport)
        assert call.state is CallState.LIVE
        await bench.run(9)
        assert call.reason is EndReason.PEER_VANISHED


async def test_a_caller_who_says_nothing_is_warned_then_ended() -> None:
    async with call_bench(limits=CallLimits(idle_s=60, warning_s=10)) as bench:
        call, transport = await bench.live()
        transport.numbered.reserve = lambda: np.zeros(FRAME_SAMPLES, np.float32)  # type: ignore
        await bench.run(49, transport)
        assert not transport.of("notice")
        await bench.run(3, transport)
        (warning,) = transport.of("notice")
        assert warning["code"] == "idle_soon" and 5 < warning["seconds_left"] <= 10
        await bench.run(10, transport)
        assert call.reason is EndReason.IDLE
        assert transport.of("ended")[0]["reason"] == "idle"


async def test_the_longest_call_is_announced_and_kept_to() -> None:
    async with call_bench(limits=CallLimits(call_s=100, idle_s=0, warning_s=20)) as bench:
        call, transport = await bench.live()
        await bench.run(81, transport)
        assert [m["code"] for m in transport.of("notice")] == ["call_limit_soon"]
        await bench.run(20, transport)
        assert call.reason is EndReason.CALL_LIMIT


async def test_overload_is_told_to_the_caller() -> None:
    stepper = FakeStepper()
    async with call_bench(stepper) as bench:
        _, transport = await bench.live()
        stepper.before_step = lambda: bench.clock.advance(0.3)
        await bench.run(0.5, transport)
        stepper.before_step = lambda: None
        await bench.run(0.5, transport)
        notice = transport.of("notice")[0]
        assert notice["code"] == "overload" and notice["frames"] >= 2


async def test_quality_figures_are_sent_while_live() -> None:
    async with call_bench() as bench:
        _, transport = await bench.live()
        await bench.run(9, transport)
        assert len(transport.of("stats")) == 4
        assert transport.of("stats")[0]["packets_received"] == 7


async def test_an_engine_that_fails_tells_its_callers() -> None:
    stepper = FakeStepper()
    async with call_bench(stepper) as bench:
        call, transport = await bench.live()

        def fail() -> None:
            raise RuntimeError

        stepper.before_step = fail
        await bench.run(1, transport)
        assert call.reason is EndReason.AGENT_FAILED
        assert transport.of("ended")[0]["reason"] == "agent_failed"


async def test_a_full_server_refuses_and_holds_nothing() -> None:
    async with call_bench(FakeStepper(slots=1)) as bench:
        await bench.place()
        with pytest.raises(ServerFull):
            await bench.place()
        assert len(bench.registry) == 1


async def test_a_connection_that_cannot_be_made_holds_nothing() -> None:
    async with call_bench(FakeStepper(slots=1)) as bench:

        async def refuse(events: object) -> tuple[object, str]:
            raise RuntimeError("no socket")

        with pytest.raises(RuntimeError):
            await bench.registry.place(SessionSpec(), refuse)  # type: ignore[arg-type]
        await bench.run(FRAME_S)
        assert len(bench.registry) == 0
        assert bench.engine.status().slots_free == 1


@pytest.mark.parametrize(("stops", "kind"), [(True, ServerDraining), (False, EngineFailed)])
async def test_a_call_that_the_server_ends_before_its_answer_is_refused(
    stops: bool, kind: type[RtcAgentError]
) -> None:
    async with call_bench(FakeStepper(slots=1)) as bench:
        made: list[FakeTransport] = []

        async def connect(events: TransportEvents) -> tuple[FakeTransport, str]:
            await (bench.registry.aclose(5) if stops else bench.engine.aclose())
            made.append(FakeTransport(bench.clock, events))
            return made[0], "answer"

        with pytest.raises(kind):
            await bench.registry.place(SessionSpec(), connect)
        await asyncio.sleep(0)
        assert made[0].closed == 1 and len(bench.registry) == 0


async def test_who_keeps_figures_and_fails_does_not_change_a_refusal() -> None:
    class Broken:
        def on_refused(self, error: RtcAgentError) -> None:
            raise OSError("disk full")

        def on_ended(self, facts: CallFacts) -> None:
            raise OSError("disk full")

    async with call_bench(FakeStepper(slots=1)) as bench:
        bench.registry.watchers.append(Broken())
        await bench.place()
        with pytest.raises(ServerFull):
            await bench.place()


async def test_stopping_tells_every_caller_why() -> None:
    async with call_bench(FakeStepper(slots=2)) as bench:
        transports = [(await bench.live())[1] for _ in range(2)]
        await bench.registry.aclose(5)
        assert [t.of("ended")[0]["reason"] for t in transports] == ["server_stopping"] * 2
        assert [t.closed for t in transports] == [1, 1]
        with pytest.raises(ServerDraining):
            await bench.place()


async def test_five_hundred_calls_given_up_at_any_stage_leak_no_slot() -> None:
    async with call_bench(FakeStepper(slots=2, pieces=2)) as bench:
        for number in range(500):
            call, transport = await bench.place()
            if number % 2:
                await bench.run((number % 5) * 0.04)
            if number % 3:
                call.on_connected()
            if number % 7:
                await bench.run((number % 4) * 0.04)
            transport.events.on_closed("peer_closed")
            await bench.run(2 * FRAME_S)
        assert bench.engine.status().slots_free == 2
        assert len(bench.registry) == 0
        with pytest.raises(UnknownCall):
            bench.registry.get("nobody")


async def test_a_flood_of_messages_ends_the_call_of_whoever_sends_it() -> None:
    async with call_bench() as bench:
        call, transport = await bench.live()
        other, _ = await bench.live()
        for _ in range(2_000):
            call.on_message("text", '{"type":"ping"}')
        assert call.state is CallState.LIVE
        answered = len(transport.of("pong"))
        assert answered == 1_000
        for _ in range(2):
            call.on_message("text", '{"type":"ping"}')
        assert call.reason is EndReason.FLOOD
        assert transport.sent[-1]["reason"] == "flood"
        assert other.state is CallState.LIVE


async def test_a_busy_client_is_no_flood() -> None:
    async with call_bench() as bench:
        call, transport = await bench.live()
        for _ in range(100):
            for _ in range(50):
                call.on_message("text", '{"type":"ping"}')
            await bench.run(0.5, transport)
        assert call.state is CallState.LIVE
        assert len(transport.of("pong")) == 5_000


async def test_an_agent_that_is_read_but_not_heard_is_told_of_once() -> None:
    stepper = FakeStepper()
    async with call_bench(stepper) as bench:
        _, transport = await bench.live()
        step = stepper.step

        def silent(pcm: Pcm, live: np.ndarray) -> object:
            return replace(step(pcm, live), pcm=np.zeros_like(pcm))

        stepper.step = silent  # type: ignore[assignment,method-assign]
        stepper.text = {0: "word "}
        await bench.run(20, transport)
        assert [m["code"] for m in transport.of("notice")] == ["no_sound"]
