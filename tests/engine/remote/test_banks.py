"""Banks of an engine in another process: each session's frames go to its own bank's ticks."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from rtc_agent.clock import MonotonicClock
from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.placing import IN_TIME_S, PACKET_S, PacketTimes
from rtc_agent.engine.remote import memory
from rtc_agent.engine.remote.client import LOST, RemoteEngine
from rtc_agent.engine.remote.host import EngineHost
from rtc_agent.engine.remote.lead import MOST_S
from rtc_agent.engine.remote.memory import FrameMemory
from rtc_agent.engine.remote.wire import Wire
from rtc_agent.engine.runner import ThreadRunner
from rtc_agent.engine.staggered import StaggeredEngine
from rtc_agent.engine.stepper import FRAME_S, Pcm, SessionSpec
from rtc_agent.errors import ServerFull
from tests.engine.fakes import FakeStepper, NumberedSource, RecordingSink
from tests.engine.remote.test_remote import joined, until
from tests.engine.test_placed import TimelySource

BANKS = 2
SLOTS = 2


class Pair:
    """A host of two banks and one media process's client, in one event loop."""

    def __init__(self, folder: Path, placing: bool = False) -> None:
        self.placing = placing
        self.path = folder / "engine.sock"
        self.fd = memory.create(BANKS * SLOTS)
        self.client = RemoteEngine(self.path, self.memory(), MonotonicClock())

    def memory(self) -> FrameMemory:
        return FrameMemory(self.fd, BANKS * SLOTS)

    async def start_host(self) -> None:
        self.steppers = [FakeStepper(SLOTS) for _ in range(BANKS)]
        self.engine = StaggeredEngine(
            self.steppers, MonotonicClock(), ThreadRunner(), placing=self.placing
        )
        self.engine.start()
        self.host = EngineHost(self.engine, self.memory())
        await self.host.start(self.path)

    async def stop_host(self) -> None:
        await self.host.aclose()
        await self.engine.aclose()
        self.path.unlink(missing_ok=True)

    async def call(
        self, source: NumberedSource | None = None
    ) -> tuple[NumberedSource, RecordingSink]:
        source, sink = source or NumberedSource(), RecordingSink()
        session = await self.client.open(SessionSpec(), source, sink, "call")
        await until(lambda: sink.ready)
        session.start()
        return source, sink


def _next(bank: LocalEngine) -> float:
    return bank.next_tick_s()


def pair(folder: Path, placing: bool = False) -> AbstractAsyncContextManager[Pair]:
    return joined(Pair(folder, placing))


async def test_every_call_hears_its_own_frames_whichever_bank_it_is_in(tmp_path: Path) -> None:
    async with pair(tmp_path) as it:
        calls = []
        for number in range(BANKS * SLOTS):
            source, sink = await it.call()
            source.number = 1_000 * (number + 1)
            calls.append((number, sink))
        with pytest.raises(ServerFull, match="all 4 calls"):
            await it.call()
        for number, sink in calls:
            await until(lambda sink=sink: len(sink.frames) >= 8)  # type: ignore[misc]
            values = [v for v in sink.values if v > 500]
            assert {value // 1_000 for value in values} == {number + 1}
            assert values == sorted(set(values))
            assert sink.indices == sorted(set(sink.indices))
        assert all(stepper.opened == [0, 1] for stepper in it.steppers)
        # Two banks' rings of one slot would not show: their ticks are apart.
        places = {(s.bank, s.slot) for s in it.client._sessions.values()}
        assert places == {(0, 0), (0, 1), (1, 2), (1, 3)}
        status = it.client.status()
        assert status.slots == BANKS * SLOTS and status.banks == BANKS


class TimedSource(NumberedSource):
    """Knows when its frames were taken."""

    def __init__(self) -> None:
        super().__init__()
        self.taken_s: list[float] = []

    def reserve(self) -> Pcm:
        self.taken_s.append(MonotonicClock().now())
        return super().reserve()


async def test_frames_are_handed_over_just_before_the_tick_of_their_own_bank(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as it:
        for bank in it.engine.banks:
            source = TimedSource()
            await it.call(source)
            await until(lambda source=source: len(source.taken_s) >= 8)  # type: ignore[misc]
            early_s = [(bank.origin_s - taken_s) % FRAME_S for taken_s in source.taken_s]
            # A busy machine may be late with some of them.
            assert min(early_s) < MOST_S + 0.003


async def test_the_media_side_ticks_with_each_bank(tmp_path: Path) -> None:
    async with pair(tmp_path) as it:
        origins = [bank.origin_s for bank in it.engine.banks]
        assert origins[1] - origins[0] == pytest.approx(FRAME_S / BANKS)
        assert [ticks.origin_s for ticks in it.client._ticks] == origins
        assert it.client.next_tick_s() == min(it.engine.banks, key=_next).next_tick_s()


async def test_an_engine_that_comes_back_is_used_in_all_its_banks(tmp_path: Path) -> None:
    async with pair(tmp_path) as it:
        before = [await it.call() for _ in range(2)]
        await until(lambda: all(sink.frames for _, sink in before))
        await it.stop_host()
        await until(lambda: all(sink.failures for _, sink in before))
        assert [sink.failures for _, sink in before] == [[LOST]] * 2
        await it.start_host()
        await until(lambda: it.client.status().ready)
        after = [await it.call() for _ in range(2)]
        await until(lambda: all(len(sink.frames) > 3 for _, sink in after))
        assert [stepper.opened for stepper in it.steppers] == [[0], [0]]


async def test_calls_go_on_in_the_bank_that_suits_their_packets_and_hear_only_themselves(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path, placing=True) as it:
        calls = []
        for bank in (1, 0, 0, 1):
            source = TimelySource()
            lead_s = it.client._leads[0].seconds
            due_s = it.engine.banks[bank].origin_s - lead_s - IN_TIME_S - 0.004
            source.times = PacketTimes(due_s, PACKET_S)
            source.number = 1_000 * (len(calls) + 1)
            calls.append((bank, *await it.call(source)))
            await until(lambda sink=calls[-1][2]: sink.frames)  # type: ignore[misc]
        for number, (_, _, sink) in enumerate(calls):
            await until(lambda sink=sink: len(sink.frames) >= 8)  # type: ignore[misc]
            values = [v for v in sink.values if v > 500]
            assert {value // 1_000 for value in values} == {number + 1}
            assert values == sorted(set(values))
            assert sink.ready == 1
        places = [(s.bank, s.slot) for s in it.client._sessions.values()]
        assert [bank for bank, _ in places] == [bank for bank, *_ in calls]
        assert len(set(places)) == len(places)


async def test_a_frame_that_an_engine_did_not_wait_for_is_no_frame_lost(tmp_path: Path) -> None:
    async with pair(tmp_path) as it:
        source, sink = await it.call()
        # It went live just before a tick, and nothing was handed over yet.
        await until(lambda: len(sink.frames) >= 4)
        assert sink.skipped == 0 and sink.indices[:3] == [0, 1, 2]


@pytest.mark.parametrize("placing", [False, True])
async def test_beginning_anew_as_the_last_beginning_is_prepared_waits_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placing: bool
) -> None:
    async with pair(tmp_path, placing) as it:
        sink = RecordingSink()
        session = await it.client.open(SessionSpec(), NumberedSource(), sink, "call")
        await until(lambda: sink.ready)
        send = Wire.send
        crossings = [SessionSpec(persona="a parrot")]

        def crossing(wire: Wire, kind: str, **fields: Any) -> None:
            send(wire, kind, **fields)
            if kind == "ready" and crossings:
                session.reopen(crossings.pop())

        monkeypatch.setattr(Wire, "send", crossing)
        monkeypatch.setattr(sink, "on_ready", session.start)
        session.reopen(SessionSpec(persona="a pirate"))
        await until(lambda: len(sink.frames) > 3)
        assert sink.indices[:3] == [0, 1, 2]
        assert any(stepper.specs[-1].persona == "a parrot" for stepper in it.steppers)
