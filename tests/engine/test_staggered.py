"""Banks on a virtual clock: whose tick is when, and what one bank's work means for the others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest

from rtc_agent.engine.echo import EchoStepper
from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.session import LocalSession
from rtc_agent.engine.staggered import StaggeredEngine, create_engine
from rtc_agent.engine.stepper import FRAME_S, SessionSpec
from rtc_agent.errors import EngineFailed, ServerFull
from tests.engine.fakes import FakeStepper, NumberedSource, RecordingSink
from tests.virtual_clock import VirtualClock

T = TypeVar("T")
START_S = 1_000.0


class Device:
    """A `StepRunner` whose work takes time on the virtual clock, one piece after another."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._free = asyncio.Lock()
        self.takes_s = 0.0
        """What the work that is being done takes; it says so itself."""
        self.done: list[tuple[float, float]] = []
        """When each piece of work that took time began and ended."""
        self.shut_down = False

    async def run(self, work: Callable[[], T]) -> T:
        async with self._free:
            self.takes_s = 0.0
            result = work()
            if self.takes_s:
                began = self._clock.now()
                await self._clock.sleep_until(began + self.takes_s)
                self.done.append((began, self._clock.now()))
            return result

    def shutdown(self) -> None:
        self.shut_down = True


class Bench:
    def __init__(self, banks: int, slots: int, pieces: int = 0) -> None:
        self.clock = VirtualClock(START_S)
        self.device = Device(self.clock)
        self.steppers = [FakeStepper(slots, pieces) for _ in range(banks)]
        self.stepped: list[tuple[int, float]] = []
        """Every step's bank, and when it began."""
        for bank, stepper in enumerate(self.steppers):
            self.step_takes(bank, 0.0)
            stepper.on_piece = lambda: self.takes(0.0)
        self.engine = StaggeredEngine(self.steppers, self.clock, self.device)

    def takes(self, seconds: float) -> None:
        self.device.takes_s = seconds

    def step_takes(self, bank: int, seconds: float) -> None:
        def step() -> None:
            self.stepped.append((bank, self.clock.now()))
            self.takes(seconds)

        self.steppers[bank].before_step = step

    def pieces_take(self, seconds: float) -> None:
        for stepper in self.steppers:
            stepper.on_piece = lambda: self.takes(seconds)

    async def open(self) -> tuple[LocalSession, NumberedSource, RecordingSink]:
        source, sink = NumberedSource(), RecordingSink()
        return await self.engine.open(SessionSpec(), source, sink, "call-test"), source, sink

    async def live(self, sessions: int) -> list[tuple[LocalSession, NumberedSource, RecordingSink]]:
        opened = [await self.open() for _ in range(sessions)]
        await self.ticks(2)
        for session, _, _ in opened:
            assert session.ready
            session.start()
        return opened

    async def ticks(self, count: float) -> None:
        await self.clock.run_for(count * FRAME_S)

    def began(self, bank: int) -> list[float]:
        """When that bank's steps began, in frames since its own first tick was due."""
        origin_s = self.engine.banks[bank].origin_s
        return [(at - origin_s) / FRAME_S for b, at in self.stepped if b == bank]


@contextlib.asynccontextmanager
async def running(banks: int, slots: int, pieces: int = 0) -> AsyncIterator[Bench]:
    bench = Bench(banks, slots, pieces)
    bench.engine.start()
    try:
        yield bench
    finally:
        await bench.engine.aclose()
        assert bench.device.shut_down
        assert all(stepper.shut_down for stepper in bench.steppers)


@pytest.mark.parametrize("banks", [2, 4, 8])
async def test_ticks_of_banks_are_evenly_apart(banks: int) -> None:
    async with running(banks, 1) as bench:
        origins = [bank.origin_s - START_S for bank in bench.engine.banks]
        assert origins == pytest.approx([FRAME_S * (1 + i / banks) for i in range(banks)])
        calls = await bench.live(banks)
        bench.stepped.clear()
        await bench.ticks(5)
        for bank in range(banks):
            began = bench.began(bank)
            assert began == pytest.approx([round(began[0]) + i for i in range(5)])
        for _, _, sink in calls:
            assert sink.indices == list(range(len(sink.indices)))


async def test_openings_go_to_the_bank_with_the_most_room() -> None:
    async with running(2, 2) as bench:
        sessions = [(await bench.open())[0] for _ in range(4)]
        assert [(s.bank, s.slot) for s in sessions] == [(0, 0), (1, 0), (0, 1), (1, 1)]
        assert bench.engine.status().slots == 4 and bench.engine.status().slots_free == 0
        with pytest.raises(ServerFull, match="all 4 calls"):
            await bench.open()
        sessions[1].close()
        await bench.ticks(1)
        assert (await bench.open())[0].bank == 1


async def test_whoever_waits_for_slots_about_to_be_left_gets_one_in_either_bank() -> None:
    async with running(2, 1) as bench:
        for session, _, _ in await bench.live(2):
            session.close()
        opening = [asyncio.create_task(bench.open()) for _ in range(3)]
        await bench.ticks(3)
        outcomes = await asyncio.gather(*opening, return_exceptions=True)
        assert sum(isinstance(outcome, ServerFull) for outcome in outcomes) == 1
        taken = [o[0].bank for o in outcomes if not isinstance(o, BaseException)]
        assert sorted(taken) == [0, 1]


async def test_a_slow_step_delays_other_banks_by_no_more_than_itself() -> None:
    async with running(4, 1) as bench:
        calls = await bench.live(4)
        bench.step_takes(0, 0.030)
        for bank in (1, 2, 3):
            bench.step_takes(bank, 0.005)
        bench.stepped.clear()
        await bench.ticks(10)
        late_ms = [
            max(80 * (at - round(at - 0.25)) for at in bench.began(bank)) for bank in range(4)
        ]
        # Bank 1 is due at 20 ms and waits for the step until 30; it is over at 35, bank 2's is due
        # at 40.
        assert late_ms == pytest.approx([0, 10, 0, 0], abs=1e-6)
        assert bench.engine.status().skipped_ticks == 0
        assert all(sink.skipped == 0 for _, _, sink in calls)
        # A step's time is its own, not that of what it waited for.
        assert bench.engine.banks[1].figures.step_s[-1] == pytest.approx(0.005)


async def test_a_bank_that_misses_ticks_counts_and_tells_them_itself() -> None:
    async with running(2, 1) as bench:
        calls = await bench.live(2)
        await bench.ticks(2)
        bench.step_takes(1, 0.250)
        await bench.ticks(1)
        bench.step_takes(1, 0.0)
        await bench.ticks(10)
        skipped = [bank.figures.skipped for bank in bench.engine.banks]
        # It is over 250 ms after its tick: the ticks at 80 and 160 ms are left out, that at 240 ms
        # is not. The other bank's tick at 40 ms waited, that at 120 ms is left out.
        assert skipped == [1, 2]
        for session, source, sink in calls:
            assert sink.skipped == source.skipped == skipped[session.bank]
            assert sink.indices[-1] == source.number - 1
        assert bench.engine.status().skipped_ticks == sum(skipped)


async def test_openings_go_on_between_any_two_steps_and_delay_none_where_they_fit() -> None:
    async with running(4, 2) as bench:
        await bench.live(4)
        for bank, stepper in enumerate(bench.steppers):
            stepper.pieces = 12
            bench.step_takes(bank, 0.010)
        bench.pieces_take(0.004)
        await bench.ticks(1)
        bench.stepped.clear()
        bench.device.done.clear()
        _, _, opening = await bench.open()
        await bench.ticks(2)
        # Two pieces fit after each of the steps, of whichever bank; six turns are a frame and a
        # half.
        assert opening.ready == 1
        assert sum(ended - began < 0.009 for began, ended in bench.device.done) == 12
        assert len(bench.stepped) >= 7
        for bank in range(4):
            assert all(abs(at - round(at)) < 1e-6 for at in bench.began(bank))


async def test_a_busy_device_still_opens_calls_a_piece_a_step() -> None:
    async with running(2, 2) as bench:
        await bench.live(2)
        for bank, stepper in enumerate(bench.steppers):
            stepper.pieces = 6
            bench.step_takes(bank, 0.034)
        bench.pieces_take(0.010)
        opened = [await bench.open() for _ in range(2)]
        bench.stepped.clear()
        await bench.ticks(20)
        assert all(sink.ready == 1 for _, _, sink in opened)
        assert all(len(bench.began(bank)) >= 19 for bank in range(2))
        assert bench.engine.status().skipped_ticks == 0
        # No step waited for more than the piece in progress and the other bank's step.
        late = [(at + 1e-6) % 1 for bank in range(2) for at in bench.began(bank)]
        assert 0 < max(late) * 80 <= 10 + 34


async def test_a_step_waits_for_the_piece_in_progress_and_no_other() -> None:
    async with running(3, 2) as bench:
        await bench.live(3)
        for bank, seconds in enumerate((0.020, 0.025, 0.002)):
            bench.steppers[bank].pieces = 100
            bench.step_takes(bank, seconds)
        bench.pieces_take(0.010)
        await bench.open()
        await bench.ticks(1)
        bench.stepped.clear()
        await bench.ticks(6)
        late_ms = [
            max(80 * (at - round(at - 0.25)) for at in bench.began(bank)) for bank in range(3)
        ]
        # In ms of a frame: a step until 20, a piece until 30; bank 1 is due at 26.7 and steps until
        # 55; bank 2 is due at 53.3. A second piece would make it wait until 65.
        assert late_ms == pytest.approx([0, 3.333, 1.667], abs=1e-3)


async def test_reopening_while_another_bank_prepares_it_begins_anew() -> None:
    async with running(2, 1) as bench:
        session, _, sink = await bench.open()
        await bench.ticks(2)
        assert session.ready and session.bank == 0
        for stepper in bench.steppers:
            stepper.pieces = 40
        bench.pieces_take(0.006)
        session.reopen(SessionSpec())
        await bench.ticks(1.6)
        assert bench.steppers[0].pieces_done and not session.ready
        session.reopen(SessionSpec("again"))
        before = bench.steppers[0].pieces_done
        await bench.ticks(6)
        assert session.ready and sink.ready == 2
        assert bench.steppers[0].specs[-1].voice == "again"
        assert bench.steppers[0].pieces_done >= before + 40


async def test_a_closed_opening_of_another_bank_is_prepared_no_more() -> None:
    async with running(2, 1, pieces=1_000) as bench:
        bench.pieces_take(0.006)
        opened = [await bench.open() for _ in range(2)]
        await bench.ticks(2)
        for session, _, _ in opened:
            session.close()
        await bench.ticks(2)
        assert bench.engine.status().slots_free == 2
        done = [stepper.pieces_done for stepper in bench.steppers]
        await bench.ticks(3)
        assert [stepper.pieces_done for stepper in bench.steppers] == done


async def test_a_slot_left_in_a_bank_that_was_full_is_found_by_who_waits_for_anothers() -> None:
    async with running(2, 1) as bench:
        calls = sorted(await bench.live(2), key=lambda call: call[0].bank)
        calls[1][0].close()
        waiting = [asyncio.create_task(bench.open()) for _ in range(2)]
        await bench.clock.run_for(0)
        # The second of them has seen that this bank is full.
        calls[0][0].close()
        await bench.ticks(2)
        assert {(await opened)[0].bank for opened in waiting} == {0, 1}


async def test_a_stepper_that_fails_ends_the_calls_of_every_bank_with_its_reason() -> None:
    async with running(2, 2) as bench:
        calls = await bench.live(4)

        def broken() -> None:
            raise RuntimeError("device lost")

        bench.steppers[1].before_step = broken
        await bench.ticks(2)
        reasons = {tuple(sink.failures) for _, _, sink in calls}
        assert reasons == {("The engine failed; see the server's log.",)}
        status = bench.engine.status()
        assert not status.ready and "failed" in status.detail and status.slots_free == 4
        with pytest.raises(EngineFailed):
            await bench.open()
        stepped = len(bench.stepped)
        await bench.ticks(2)
        assert len(bench.stepped) == stepped


async def test_closing_tells_the_calls_of_every_bank() -> None:
    async with running(2, 1) as bench:
        calls = await bench.live(2)
        await bench.ticks(2)
    assert [sink.failures for _, _, sink in calls] == [["The engine was stopped."]] * 2


async def test_how_long_a_step_hangs_is_known_of_any_bank() -> None:
    async with running(2, 1) as bench:
        await bench.live(2)
        bench.step_takes(1, 5.0)
        await bench.ticks(12.5)
        assert bench.engine.step_running_s() > 0.8


async def test_figures_of_all_banks_are_summed() -> None:
    async with running(2, 1) as bench:
        await bench.live(2)
        bench.stepped.clear()
        bench.engine.banks[0].figures.lost_frames = 2
        bench.engine.banks[1].figures.lost_frames = 3
        ticks = bench.engine.status().ticks
        await bench.ticks(5)
        status = bench.engine.status()
        assert status.banks == 2 and status.ticks - ticks == len(bench.stepped) == 10
        assert sum(status.step_counts) == status.ticks
        assert status.lost_frames == 5
        assert bench.engine.next_tick_s() - bench.clock.now() <= FRAME_S / 2


def test_one_bank_is_an_engine_as_ever() -> None:
    assert type(create_engine(EchoStepper(2), VirtualClock())) is LocalEngine


def test_banks_are_of_one_size() -> None:
    clock = VirtualClock()
    with pytest.raises(ValueError, match="one size"):
        StaggeredEngine([FakeStepper(1), FakeStepper(2)], clock, Device(clock))
