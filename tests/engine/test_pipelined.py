"""The local engine over a stepper whose sound comes after the step, on a virtual clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.session import LocalSession
from rtc_agent.engine.stepper import FRAME_S, Mask, Pcm, SessionSpec, StepResult
from rtc_agent.errors import StageFailed
from tests.engine.fakes import FakeStepper, NumberedSource, RecordingSink
from tests.virtual_clock import InlineRunner, VirtualClock

T = TypeVar("T")


class SlowSound(FakeStepper):
    """Its step is over at once; its sound takes as long as the collector makes it."""

    lost: frozenset[int] = frozenset()
    held: frozenset[int] = frozenset()
    failure: StageFailed | None = None

    def begin(self, pcm: Pcm, live: Mask) -> Callable[[], StepResult]:
        if self.failure is not None:
            raise self.failure
        result = self.step(pcm.copy(), live)
        made = StepResult(result.pcm, result.text, result.failed, self.held, self.lost)
        return lambda: made


class Collector(InlineRunner):
    """Takes `delay_s` of virtual time for every piece of work."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self.delay_s = 0.0
        self.working = 0

    async def run(self, work: Callable[[], T]) -> T:
        self.working += 1
        async with self._turn:
            if self.delay_s:
                await self._clock.sleep_until(self._clock.now() + self.delay_s)
            self.working -= 1
            return work()


class Bench:
    def __init__(self) -> None:
        self.stepper = SlowSound(slots=1)
        self.clock = VirtualClock()
        self.collector = Collector(self.clock)
        self.engine = LocalEngine(
            self.stepper, self.clock, InlineRunner(), collector=self.collector
        )

    async def live(self) -> tuple[LocalSession, NumberedSource, RecordingSink]:
        source, sink = NumberedSource(), RecordingSink()
        session = await self.engine.open(SessionSpec(), source, sink, "call-test")
        await self.ticks(1)
        session.start()
        return session, source, sink

    async def ticks(self, count: float) -> None:
        await self.clock.run_for(count * FRAME_S)


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Bench]:
    bench = Bench()
    bench.engine.start()
    try:
        yield bench
    finally:
        await bench.engine.aclose()


async def test_sound_comes_as_soon_as_it_is_there_with_its_own_frames_number() -> None:
    async with running() as bench:
        _, source, sink = await bench.live()
        bench.collector.delay_s = 0.9 * FRAME_S
        await bench.ticks(10)
        assert sink.indices == list(range(9))
        assert sink.values == list(range(9))
        # Heard and answered: nothing is reserved twice or committed late.
        assert source.committed == list(range(10))
        assert bench.engine.status().skipped_ticks == 0


async def test_sound_that_takes_longer_than_a_frame_makes_ticks_skip_not_lag() -> None:
    async with running() as bench:
        _, source, sink = await bench.live()
        bench.collector.delay_s = 1.5 * FRAME_S
        await bench.ticks(30)
        assert bench.engine.status().skipped_ticks > 5
        assert source.skipped == sink.skipped
        # What waits is one sound under way and the next: lateness stays bounded, and does not grow.
        assert sink.indices[-1] >= 30 - 5
        assert sink.indices == sorted(set(sink.indices))


async def test_a_closed_session_waits_for_its_sound_and_the_next_one_gets_none_of_it() -> None:
    async with running() as bench:
        first, _, first_sink = await bench.live()
        bench.collector.delay_s = 0.5 * FRAME_S
        await bench.ticks(3.2)
        assert bench.collector.working == 1
        heard = len(first_sink.frames)
        first.close()
        assert not bench.stepper.closed
        await bench.ticks(1)
        _, source, sink = await bench.live()
        await bench.ticks(4)
        assert bench.stepper.closed == [0]
        assert len(first_sink.frames) == heard
        assert sink.indices[0] == 0 and sink.values[0] == 0
        assert source.committed == list(range(len(source.committed)))


async def test_a_session_begun_again_is_given_nothing_from_before() -> None:
    async with running() as bench:
        session, _, sink = await bench.live()
        bench.collector.delay_s = 0.5 * FRAME_S
        await bench.ticks(3.2)
        before = len(sink.frames)
        session.reopen(SessionSpec())
        await bench.ticks(1)
        assert len(sink.frames) == before and sink.ready == 2
        session.start()
        await bench.ticks(3)
        assert sink.indices[before:] == [0, 1, 2][: len(sink.indices) - before]


async def test_a_voice_that_breaks_off_is_told_once_and_so_is_its_return() -> None:
    async with running() as bench:
        _, _, sink = await bench.live()
        await bench.ticks(2)
        bench.stepper.lost = frozenset({0})
        await bench.ticks(5)
        bench.stepper.lost = frozenset()
        await bench.ticks(2.5)
        assert sink.notices == [("voice_lost", {}), ("voice_back", {"frames": 5})]
        assert sink.indices == list(range(len(sink.indices)))
        assert bench.engine.status().lost_frames == 5


async def test_frames_that_are_held_back_are_no_fault() -> None:
    async with running() as bench:
        _, _, sink = await bench.live()
        bench.stepper.held = frozenset({0})
        await bench.ticks(4.5)
        assert not sink.notices
        assert sink.indices == list(range(4))


async def test_a_stage_that_is_gone_for_good_ends_all_calls_with_its_reason() -> None:
    async with running() as bench:
        _, _, sink = await bench.live()
        await bench.ticks(2)
        bench.stepper.failure = StageFailed("The voice cannot be made any more.")
        await bench.ticks(2)
        assert sink.failures == ["The voice cannot be made any more."]
        status = bench.engine.status()
        assert not status.ready and "voice" in status.detail


async def test_without_a_collector_a_step_is_waited_for_whole() -> None:
    bench = Bench()
    bench.engine = LocalEngine(bench.stepper, bench.clock, InlineRunner())
    bench.engine.start()
    _, _, sink = await bench.live()
    await bench.ticks(3)
    assert sink.values == [0, 1, 2]
    await bench.engine.aclose()
