"""The local engine on a virtual clock: sessions, ticks, overload, faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.session import LocalSession
from rtc_agent.engine.stepper import FRAME_S, SessionSpec
from rtc_agent.errors import EngineFailed, ServerFull
from tests.engine.fakes import FakeStepper, NumberedSource, RecordingSink
from tests.virtual_clock import InlineRunner, VirtualClock


class Bench:
    """An engine with its clock, and a short way to open sessions."""

    def __init__(self, stepper: FakeStepper) -> None:
        self.stepper = stepper
        self.clock = VirtualClock()
        self.engine = LocalEngine(stepper, self.clock, InlineRunner())

    async def open(self) -> tuple[LocalSession, NumberedSource, RecordingSink]:
        source, sink = NumberedSource(), RecordingSink()
        session = await self.engine.open(SessionSpec(), source, sink, "call-test")
        assert isinstance(session, LocalSession)
        return session, source, sink

    async def live(self) -> tuple[LocalSession, NumberedSource, RecordingSink]:
        opened = await self.open()
        await self.ticks(1)
        opened[0].start()
        return opened

    async def ticks(self, count: int) -> None:
        await self.clock.run_for(count * FRAME_S)


@contextlib.asynccontextmanager
async def running(stepper: FakeStepper) -> AsyncIterator[Bench]:
    bench = Bench(stepper)
    bench.engine.start()
    try:
        yield bench
    finally:
        await bench.engine.aclose()


async def test_a_stepper_that_cannot_take_a_session_is_a_refusal_and_holds_no_slot() -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of memory")

    async with running(FakeStepper(slots=1)) as bench:
        for method in ("check", "open"):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(bench.stepper, method, broken)
                with pytest.raises(EngineFailed):
                    await bench.open()
        await bench.live()


async def test_frames_come_back_one_for_one_and_numbered_from_zero() -> None:
    async with running(FakeStepper()) as bench:
        _, source, sink = await bench.live()
        await bench.ticks(10)
        assert sink.indices == list(range(10))
        assert sink.values == list(range(10))
        assert source.committed == list(range(10))


async def test_nothing_is_stepped_before_start() -> None:
    async with running(FakeStepper()) as bench:
        _, source, sink = await bench.open()
        await bench.ticks(5)
        assert sink.ready == 1
        assert source.reserved == 0
        assert not sink.frames


async def test_sessions_join_and_leave_on_any_tick() -> None:
    async with running(FakeStepper(slots=2)) as bench:
        first, _, first_sink = await bench.live()
        await bench.ticks(3)
        _, _, second_sink = await bench.live()
        await bench.ticks(2)
        first.close()
        await bench.ticks(2)
        assert first_sink.indices == list(range(6))
        assert second_sink.indices == list(range(4))
        assert bench.stepper.steps[-1] == [1]
        assert bench.stepper.closed == [0]


async def test_a_full_engine_refuses_and_a_closed_session_makes_room() -> None:
    async with running(FakeStepper(slots=1)) as bench:
        session, _, _ = await bench.open()
        with pytest.raises(ServerFull) as refusal:
            await bench.open()
        assert refusal.value.retry_after_s
        session.close()
        session.close()
        await bench.ticks(1)
        assert bench.engine.status().slots_free == 1
        await bench.open()


async def test_whoever_closes_and_opens_again_at_once_is_not_refused() -> None:
    async with running(FakeStepper(slots=1)) as bench:
        session, _, sink = await bench.live()
        for _ in range(20):
            session.close()
            again = asyncio.create_task(bench.open())
            await bench.ticks(1)
            session, _, sink = await again
            with pytest.raises(ServerFull):
                await bench.open()
        await bench.ticks(1)
        session.start()
        await bench.ticks(2)
        assert len(sink.frames) == 2


async def test_only_as_many_wait_for_a_closed_slot_as_there_are() -> None:
    async with running(FakeStepper(slots=2)) as bench:
        first, _, _ = await bench.live()
        await bench.live()
        first.close()
        opening = [asyncio.create_task(bench.open()) for _ in range(3)]
        await bench.ticks(1)
        outcomes = await asyncio.gather(*opening, return_exceptions=True)
        assert sum(isinstance(outcome, ServerFull) for outcome in outcomes) == 2


async def test_an_engine_that_stops_while_a_slot_is_waited_for_says_so() -> None:
    async with running(FakeStepper(slots=1)) as bench:
        session, _, _ = await bench.live()
        session.close()
        opening = asyncio.create_task(bench.open())
        await asyncio.sleep(0)
        await bench.engine.aclose()
        with pytest.raises(EngineFailed):
            await opening


async def test_a_closed_session_hears_nothing_more_and_the_slot_goes_to_the_next() -> None:
    async with running(FakeStepper(slots=1)) as bench:
        session, _, old = await bench.live()
        await bench.ticks(2)
        session.close()
        await bench.ticks(1)
        _, _, new = await bench.live()
        await bench.ticks(3)
        assert old.indices == [0, 1]
        assert new.indices == [0, 1, 2]


async def test_closing_during_a_step_discards_that_steps_output() -> None:
    stepper = FakeStepper(slots=1)
    async with running(stepper) as bench:
        session, _, sink = await bench.live()
        await bench.ticks(1)
        stepper.before_step = session.close
        await bench.ticks(2)
        assert sink.indices == [0]


async def test_a_slow_stepper_drops_whole_frames_and_lag_stays_under_one_frame() -> None:
    stepper = FakeStepper(slots=1)
    async with running(stepper) as bench:
        _, source, sink = await bench.live()
        late = []

        def slow() -> None:
            late.append(bench.clock.now() - bench.engine.next_tick_s() + FRAME_S)
            bench.clock.advance(0.095)

        stepper.before_step = slow
        await bench.ticks(1_500)
        assert max(late) < FRAME_S
        assert source.skipped == sink.skipped > 0
        assert sink.skipped == pytest.approx(1_500 * (1 - 80 / 95), abs=3)
        assert sink.indices == sorted(set(sink.indices))
        assert sink.indices[-1] == source.number - 1
        assert bench.engine.status().skipped_ticks == sink.skipped


async def test_a_freeze_of_five_seconds_is_skipped_not_worked_off() -> None:
    stepper = FakeStepper(slots=1)
    async with running(stepper) as bench:
        _, source, sink = await bench.live()
        await bench.ticks(3)
        stepper.before_step = lambda: bench.clock.advance(5.0)
        await bench.ticks(1)
        stepper.before_step = lambda: None
        await bench.ticks(10)
        assert sink.skipped == source.skipped == 61
        gaps = [b - a for a, b in zip(sink.indices, sink.indices[1:], strict=False)]
        assert sorted(gaps)[-1] == 62
        assert set(gaps[:-1]) <= {1, 62}


async def test_a_step_that_fails_once_loses_no_audio() -> None:
    stepper = FakeStepper(slots=1)
    async with running(stepper) as bench:
        _, source, sink = await bench.live()
        await bench.ticks(2)
        faults = iter([RuntimeError("once")])

        def fail_once() -> None:
            for fault in faults:
                raise fault

        stepper.before_step = fail_once
        await bench.ticks(3)
        assert source.rolled_back == 1
        assert sink.values == [0, 1, 2, 3, 4]


async def test_a_step_that_fails_twice_ends_every_session_with_a_reason() -> None:
    stepper = FakeStepper(slots=2)
    async with running(stepper) as bench:
        _, _, one = await bench.live()
        _, _, two = await bench.live()

        def fail() -> None:
            raise RuntimeError("for good")

        stepper.before_step = fail
        await bench.ticks(2)
        assert len(one.failures) == len(two.failures) == 1
        status = bench.engine.status()
        assert not status.ready and status.detail
        assert status.slots_free == 2
        with pytest.raises(EngineFailed):
            await bench.open()


async def test_a_row_that_fails_ends_alone() -> None:
    stepper = FakeStepper(slots=2)
    async with running(stepper) as bench:
        _, _, broken = await bench.live()
        _, _, fine = await bench.live()
        await bench.ticks(1)
        stepper.failed = {0: "not a number"}
        await bench.ticks(3)
        stepper.failed = {}
        assert broken.failures == ["not a number"]
        assert fine.indices == [0, 1, 2, 3]
        assert not fine.failures
        assert bench.engine.status().slots_free == 1


async def test_a_sink_that_raises_ends_its_own_session_only() -> None:
    async with running(FakeStepper(slots=2)) as bench:
        _, _, broken = await bench.live()
        _, _, fine = await bench.live()

        def raise_() -> None:
            raise ValueError

        broken.on_frame = lambda frame: raise_()  # type: ignore[method-assign]
        await bench.ticks(4)
        assert len(broken.failures) == 1
        assert fine.indices == [0, 1, 2, 3]


async def test_opening_goes_on_between_ticks_without_making_one_late() -> None:
    stepper = FakeStepper(slots=2, pieces=30)
    async with running(stepper) as bench:
        stepper.pieces = 0
        _, _, live = await bench.live()
        stepper.pieces = 30
        stepper.before_step = lambda: bench.clock.advance(0.010)
        stepper.on_piece = lambda: bench.clock.advance(0.015)
        late = []
        wait = bench.engine._tick_clock.wait

        async def observed():  # type: ignore[no-untyped-def]
            tick = await wait()
            late.append(tick.late_s)
            return tick

        bench.engine._tick_clock.wait = observed  # type: ignore[method-assign]
        _, _, opening = await bench.open()
        await bench.ticks(12)
        assert opening.ready == 1
        assert stepper.pieces_done == 30
        assert max(late) < 1e-6
        status = bench.engine.status()
        assert status.open_ms_p99 > 400
        assert status.piece_ms_max == pytest.approx(15)
        assert live.indices == list(range(len(live.indices)))


async def test_an_opening_given_up_halfway_frees_its_slot() -> None:
    stepper = FakeStepper(slots=1, pieces=1_000)
    async with running(stepper) as bench:
        stepper.on_piece = lambda: bench.clock.advance(0.030)
        session, _, sink = await bench.open()
        await bench.ticks(3)
        assert 0 < stepper.pieces_done < 1_000
        session.close()
        await bench.ticks(2)
        assert sink.ready == 0
        assert bench.engine.status().slots_free == 1


async def test_an_opening_that_fails_tells_its_session_only() -> None:
    stepper = FakeStepper(slots=2)
    async with running(stepper) as bench:
        _, _, fine = await bench.live()
        stepper.pieces = 1

        def fail() -> None:
            raise RuntimeError("no memory")

        stepper.on_piece = fail
        _, _, broken = await bench.open()
        await bench.ticks(3)
        assert len(broken.failures) == 1 and "no memory" in broken.failures[0]
        assert fine.indices == [0, 1, 2]
        assert bench.engine.status().slots_free == 1


async def test_closing_the_engine_tells_open_sessions_and_releases_the_stepper() -> None:
    stepper = FakeStepper()
    async with running(stepper) as bench:
        _, _, sink = await bench.live()
        await bench.engine.aclose()
        await bench.engine.aclose()
        assert sink.failures == ["The engine was stopped."]
        assert stepper.shut_down


async def test_a_reopened_session_begins_again_in_its_own_slot() -> None:
    """Even where every slot is taken: no other is needed."""
    async with running(FakeStepper(slots=1)) as bench:
        session, _, sink = await bench.live()
        await bench.ticks(3)
        other = SessionSpec(voice="other")
        session.reopen(other)
        await bench.ticks(1)
        assert not sink.frames[3:]
        assert sink.ready == 2 and session.ready
        session.start()
        await bench.ticks(2)
        assert sink.indices == [0, 1, 2, 0, 1]
        assert bench.stepper.closed == [0] and bench.stepper.opened == [0, 0]
        assert bench.stepper.specs[-1] == other
        assert bench.engine.status().slots_free == 0


async def test_reopening_while_it_still_opens_never_finishes_the_old_opening() -> None:
    stepper = FakeStepper(slots=1, pieces=2)
    async with running(stepper) as bench:
        session, _, sink = await bench.open()
        stepper.on_piece = lambda: session.reopen(SessionSpec(voice="new"))
        await bench.clock.run_for(0.001)
        stepper.on_piece = lambda: None
        await bench.ticks(3)
        assert sink.ready == 1
        assert stepper.specs[-1].voice == "new"


async def test_a_session_closed_after_it_was_reopened_frees_its_slot() -> None:
    async with running(FakeStepper(slots=1)) as bench:
        session, _, sink = await bench.live()
        session.reopen(SessionSpec())
        session.close()
        session.reopen(SessionSpec())
        await bench.ticks(2)
        assert bench.engine.status().slots_free == 1
        assert sink.ready == 1
