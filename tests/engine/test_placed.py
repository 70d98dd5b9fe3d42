"""Calls that go on in the bank whose tick suits their packets, on a virtual clock."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import numpy as np
import numpy.typing as npt
import pytest

from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.mirror import MirrorStepper
from rtc_agent.engine.placed import PlacedSession
from rtc_agent.engine.placing import IN_TIME_S, PACKET_S, WITHIN_S, PacketTimes
from rtc_agent.engine.prefix_cache import PrefixCache
from rtc_agent.engine.session import LocalSession
from rtc_agent.engine.staggered import StaggeredEngine
from rtc_agent.engine.stepper import FRAME_S, Pcm, SessionSpec
from rtc_agent.errors import EngineFailed
from tests.engine.fakes import FakeStepper, NumberedSource, RecordingSink
from tests.lockstep_model import PROMPTED, noise, parts, run_alone, stepper
from tests.virtual_clock import InlineRunner, VirtualClock

BANKS = 4


class TimelySource(NumberedSource):
    """Says when its packets are due, once it is told."""

    in_packets = True
    times: PacketTimes | None = None

    def packet_times(self, packets: int) -> PacketTimes | None:
        return self.times


class Bench:
    def __init__(self, slots: int, pieces: int) -> None:
        self.clock = VirtualClock()
        self.steppers = [FakeStepper(slots, pieces) for _ in range(BANKS)]
        self.engine = StaggeredEngine(self.steppers, self.clock, InlineRunner(), placing=True)
        self.engine.start()

    def suiting(self, bank: int) -> PacketTimes:
        """Packets that this bank's tick comes soonest after."""
        return PacketTimes(self.engine.banks[bank].origin_s - IN_TIME_S - 0.001, PACKET_S)

    async def ready(
        self, spec: SessionSpec | None = None
    ) -> tuple[PlacedSession, TimelySource, RecordingSink]:
        source, sink = TimelySource(), RecordingSink()
        session = await self.engine.open(spec or SessionSpec(), source, sink, "call-test")
        assert isinstance(session, PlacedSession)
        await self.ticks(2)
        assert session.ready and sink.ready == 1
        return session, source, sink

    async def live(self, bank: int) -> tuple[PlacedSession, TimelySource, RecordingSink]:
        session, source, sink = await self.ready()
        source.times = self.suiting(bank)
        session.start()
        await self.ticks(3)
        return session, source, sink

    async def ticks(self, count: float) -> None:
        await self.clock.run_for(count * FRAME_S)

    @property
    def free(self) -> list[int]:
        return [bank.slots_free for bank in self.engine.banks]


@contextlib.asynccontextmanager
async def running(slots: int = 2, pieces: int = 1) -> AsyncIterator[Bench]:
    bench = Bench(slots, pieces)
    try:
        yield bench
    finally:
        await bench.engine.aclose()


async def test_each_call_goes_on_in_the_bank_that_suits_it() -> None:
    async with running() as bench:
        for bank in (2, 0, 3, 1):
            session, source, sink = await bench.live(bank)
            assert session.bank == bank
            assert sink.ready == 1 and not sink.failures
            assert sink.indices[:2] == [0, 1] and sink.values[:2] == [0, 1]
            assert source.skipped == 0
        assert bench.free == [1] * BANKS
        # What a call left behind elsewhere was closed there.
        for stepper in bench.steppers:
            assert len(stepper.opened) == 1 + len(stepper.closed)


async def test_callers_of_one_kind_fill_their_bank_and_then_the_next_best() -> None:
    async with running(slots=2) as bench:
        banks = [(await bench.live(1))[0].bank for _ in range(4)]
        # Packets that suit the tick of bank 1 come 5 ms too early for that of the next best.
        assert banks[:2] == [1, 1] and len(set(banks[2:])) == 1 and banks[2] != 1
        assert sum(bench.free) == 4


async def test_a_caller_who_sends_nothing_is_heard_all_the_same() -> None:
    async with running() as bench:
        session, _, sink = await bench.ready()
        bank = session.bank
        session.start()
        await bench.clock.run_for(WITHIN_S - 0.02)
        assert not sink.frames
        await bench.clock.run_for(0.02 + 2 * FRAME_S)
        assert sink.frames and session.bank == bank


async def test_the_first_of_two_starts_counts() -> None:
    async with running() as bench:
        session, source, sink = await bench.ready()
        source.times = bench.suiting(3)
        session.start()
        session.start()
        session.start_at(bench.suiting(0))
        await bench.ticks(3)
        assert session.bank == 3 and sink.indices == sorted(set(sink.indices))


async def test_closing_while_packets_are_waited_for_frees_the_slot() -> None:
    async with running() as bench:
        session, source, sink = await bench.ready()
        session.start()
        session.close()
        source.times = bench.suiting(3)
        await bench.ticks(3)
        assert bench.free == [2] * BANKS and not sink.frames


async def test_closing_on_the_way_to_another_bank_frees_both_slots() -> None:
    async with running(pieces=50) as bench:
        session, _, sink = await bench.ready()
        session.start_at(bench.suiting((session.bank + 1) % BANKS))
        session.close()
        await bench.ticks(3)
        assert bench.free == [2] * BANKS and not sink.frames
        assert sink.ready == 1


async def test_beginning_anew_chooses_anew() -> None:
    async with running() as bench:
        session, source, sink = await bench.live(2)
        heard = len(sink.frames)
        session.reopen(SessionSpec(persona="a pirate"))
        assert not session.ready
        await bench.ticks(3)
        assert sink.ready == 2 and len(sink.frames) == heard
        source.times = bench.suiting(1)
        session.start()
        await bench.ticks(3)
        assert session.bank == 1 and sink.indices[heard] == 0
        # The bank that it moved to opened it with what it was reopened with.
        assert bench.steppers[1].specs[-1].persona == "a pirate"


async def test_beginning_anew_while_packets_are_waited_for_forgets_the_start() -> None:
    async with running() as bench:
        session, source, sink = await bench.ready()
        session.start()
        session.reopen(SessionSpec())
        source.times = bench.suiting(3)
        await bench.ticks(4)
        assert sink.ready == 2 and not sink.frames
        session.start()
        await bench.ticks(3)
        assert session.bank == 3 and sink.frames


async def test_a_bank_that_cannot_take_it_leaves_it_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as bench:
        session, _, sink = await bench.ready()
        own = session.bank
        other = bench.engine.banks[(own + 1) % BANKS]

        def refused(*_: object) -> LocalSession:
            raise EngineFailed("Not now.")

        monkeypatch.setattr(other, "open_now", refused)
        session.start_at(bench.suiting(other.bank))
        await bench.ticks(3)
        assert session.bank == own and sink.frames and not sink.failures


async def test_a_fault_while_packets_are_waited_for_ends_that_call_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(packets: int) -> PacketTimes | None:
        raise RuntimeError("broken")

    async with running() as bench:
        _, _, other = await bench.live(2)
        session, source, sink = await bench.ready()
        monkeypatch.setattr(source, "packet_times", broken)
        session.start()
        await bench.ticks(3)
        assert sink.failures == ["The call failed inside the server."]
        assert not other.failures and sum(bench.free) == 2 * BANKS - 1


async def test_preparing_a_call_that_moved_took_what_the_prompt_and_the_copy_did() -> None:
    async with running(pieces=2) as bench:
        for stepper in bench.steppers:
            stepper.on_piece = lambda: bench.clock.advance(0.01)
        session, _, _ = await bench.ready()
        other = (session.bank + 1) % BANKS
        bench.steppers[other].pieces = 1
        session.start_at(bench.suiting(other))
        await bench.ticks(2)
        assert session.bank == other
        status = bench.engine.status()
        assert (status.open_ms_p50, status.open_ms_p99) == pytest.approx((25, 30), abs=1)


async def test_an_end_of_all_banks_reaches_a_call_on_its_way() -> None:
    async with running(pieces=50) as bench:
        session, _, sink = await bench.ready()
        session.start_at(bench.suiting((session.bank + 1) % BANKS))
        for bank in bench.engine.banks:
            bank.fail("The device is gone.")
        assert sink.failures == ["The device is gone."]


class NoiseSource(TimelySource):
    """What `noise` gives, frame by frame."""

    def __init__(self, frames: npt.NDArray[np.float32]) -> None:
        super().__init__()
        self.frames = frames

    def reserve(self) -> Pcm:
        frame: Pcm = self.frames[self.number]
        return frame


async def test_a_call_that_moved_says_what_it_says_where_it_did_not() -> None:
    clock, frames = VirtualClock(), 8
    prefixes, model = PrefixCache(1 << 24), parts()
    steppers = [LockstepStepper(model, 1, prefill_chunk=8, prefixes=prefixes) for _ in range(2)]
    engine = StaggeredEngine(steppers, clock, InlineRunner(), placing=True)
    engine.start()
    source, sink = NoiseSource(noise(5, frames + 30)), RecordingSink()
    session = await engine.open(PROMPTED, source, sink, "call-test")
    assert isinstance(session, PlacedSession)
    await clock.run_for(20 * FRAME_S)
    prepared_in = session.bank
    due_s = engine.banks[1 - prepared_in].origin_s - IN_TIME_S - 0.001
    session.start_at(PacketTimes(due_s, PACKET_S))
    await clock.run_for((frames + 2) * FRAME_S)
    assert session.bank != prepared_in and len(sink.frames) > frames
    alone = run_alone(stepper(1), 0, PROMPTED, source.frames[:frames])
    for frame, pcm, text in zip(sink.frames, alone.pcm, alone.text, strict=False):
        assert np.array_equal(frame.pcm, pcm) and frame.text == text
    await engine.aclose()


async def test_a_call_whose_prompt_would_have_to_be_run_again_stays() -> None:
    clock, prefixes, model = VirtualClock(), PrefixCache(1 << 24), parts()
    steppers = [
        MirrorStepper(LockstepStepper(model, 1, prefill_chunk=8, prefixes=prefixes))
        for _ in range(2)
    ]
    engine = StaggeredEngine(steppers, clock, InlineRunner(), placing=True)
    engine.start()
    for kept in (False, True):
        sink = RecordingSink()
        session = await engine.open(PROMPTED, TimelySource(), sink, "call-test")
        assert isinstance(session, PlacedSession)
        await clock.run_for(20 * FRAME_S)
        prepared_in = session.bank
        if not kept:
            prefixes.clear()
        due_s = engine.banks[1 - prepared_in].origin_s - IN_TIME_S - 0.001
        session.start_at(PacketTimes(due_s, PACKET_S))
        await clock.run_for(4 * FRAME_S)
        assert (session.bank != prepared_in) is kept and sink.frames
        session.close()
        await clock.run_for(2 * FRAME_S)
    await engine.aclose()


async def test_a_fault_on_the_way_to_another_bank_ends_that_call_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    async with running() as bench:
        _, _, other = await bench.live(2)
        session, _, sink = await bench.ready()
        bank = bench.engine.banks[(session.bank + 1) % BANKS]
        monkeypatch.setattr(bank, "open_now", broken)
        session.start_at(bench.suiting(bank.bank))
        await bench.ticks(3)
        assert sink.failures == ["The call failed inside the server."]
        assert not other.failures and sum(bench.free) == 2 * BANKS - 1
