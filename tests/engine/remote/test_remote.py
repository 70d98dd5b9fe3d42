"""An engine and its media process, joined by a real socket and real shared memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import pytest

from rtc_agent.clock import MonotonicClock
from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.remote import client, host, memory
from rtc_agent.engine.remote.client import LOST, RemoteEngine
from rtc_agent.engine.remote.host import EngineHost
from rtc_agent.engine.remote.memory import FrameMemory
from rtc_agent.engine.runner import ThreadRunner
from rtc_agent.engine.session import LocalSession
from rtc_agent.engine.stepper import FRAME_SAMPLES, SamplingSpec, SessionSpec
from rtc_agent.errors import EngineFailed, InvalidPersona, ServerFull, UnknownVoice
from tests.engine.fakes import FakeStepper, NumberedSource, RecordingSink


class Pair:
    """An engine host and one media process's client, in one event loop."""

    def __init__(self, folder: Path, stepper: FakeStepper) -> None:
        self.path = folder / "engine.sock"
        self.fd = memory.create(stepper.slots)
        self.stepper = stepper
        self.host: EngineHost | None = None
        self.client = self.new_client()

    def new_client(self) -> RemoteEngine:
        return RemoteEngine(self.path, FrameMemory(self.fd, self.stepper.slots), MonotonicClock())

    async def start_host(self) -> None:
        engine = LocalEngine(self.stepper, MonotonicClock(), ThreadRunner())
        engine.start()
        self.host = EngineHost(engine, FrameMemory(self.fd, self.stepper.slots))
        await self.host.start(self.path)

    async def stop_host(self) -> None:
        assert self.host is not None
        await self.host.aclose()
        await self.host.engine.aclose()
        self.path.unlink(missing_ok=True)


class Joined(Protocol):
    """A host and its client, with what they share."""

    fd: int
    client: RemoteEngine

    async def start_host(self) -> None: ...

    async def stop_host(self) -> None: ...


J = TypeVar("J", bound=Joined)


@contextlib.asynccontextmanager
async def joined(made: J) -> AsyncIterator[J]:
    await made.start_host()
    await made.client.start()
    try:
        yield made
    finally:
        await made.client.aclose()
        await made.stop_host()
        os.close(made.fd)


def pair(folder: Path, slots: int = 4) -> AbstractAsyncContextManager[Pair]:
    return joined(Pair(folder, FakeStepper(slots=slots)))


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_frames_cross_in_order_and_come_back(tmp_path: Path) -> None:
    async with pair(tmp_path) as it:
        source, sink = NumberedSource(), RecordingSink()
        # Zero is what a tick hears that this process was too late for.
        source.number = 1
        it.stepper.text = {0: "a word"}
        session = await it.client.open(SessionSpec(), source, sink, "call-a")
        await until(lambda: sink.ready)
        assert not source.reserved
        session.start()
        await until(lambda: len(sink.frames) >= 10)
        values = [v for v in sink.values if v > 0]
        assert values == sorted(set(values))
        assert sink.indices == sorted(set(sink.indices))
        assert sink.frames[0].text == "a word"
        # A frame goes to its own tick: what comes back is what was handed over then.
        assert max(values) - min(values) <= sink.indices[-1] - sink.indices[0] + 1


async def test_spec_and_refusals_cross_too(tmp_path: Path) -> None:
    async with pair(tmp_path, slots=1) as it:
        seen: list[SessionSpec] = []
        it.stepper.check = seen.append  # type: ignore[method-assign]
        spec = SessionSpec("NATF0", "a pirate — «yes»", SamplingSpec(greedy=True, seed=2**62))
        await it.client.open(spec, NumberedSource(), RecordingSink(), "call-a")
        assert seen == [spec]
        with pytest.raises(ServerFull) as refusal:
            await it.client.open(SessionSpec(), NumberedSource(), RecordingSink(), "call-b")
        assert refusal.value.retry_after_s
        assert "full" in refusal.value.message


async def test_closing_frees_the_slot_and_the_next_session_hears_nothing_of_the_last(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path, slots=1) as it:
        first = await it.client.open(SessionSpec(), NumberedSource(), sink := RecordingSink(), "a")
        await until(lambda: sink.ready)
        first.start()
        await until(lambda: len(sink.frames) > 3)
        first.close()
        first.close()
        assert it.host is not None
        await until(lambda: it.host is not None and it.host.engine.status().slots_free == 1)
        frames = len(sink.frames)
        second = await it.client.open(SessionSpec(), NumberedSource(), late := RecordingSink(), "b")
        await until(lambda: late.ready)
        second.start()
        await until(lambda: len(late.frames) > 3)
        assert len(sink.frames) == frames
        assert late.indices[:4] == [0, 1, 2, 3]
        assert set(late.values[:2]) <= {-1, 0, 1}


async def test_a_media_process_that_dies_takes_its_own_sessions_only(tmp_path: Path) -> None:
    async with pair(tmp_path, slots=2) as it:
        other = it.new_client()
        await other.start()
        doomed = await other.open(SessionSpec(), NumberedSource(), gone := RecordingSink(), "a")
        kept = await it.client.open(SessionSpec(), NumberedSource(), sink := RecordingSink(), "b")
        await until(lambda: gone.ready and sink.ready)
        doomed.start()
        kept.start()
        await until(lambda: len(gone.frames) > 2)
        await other.aclose()
        assert gone.failures == [LOST]
        assert it.host is not None
        await until(lambda: it.host is not None and it.host.engine.status().slots_free == 1)
        frames = len(sink.frames)
        await until(lambda: len(sink.frames) > frames + 5)
        assert not sink.failures


async def test_an_engine_that_dies_ends_its_sessions_and_is_used_again_once_back(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as it:
        session = await it.client.open(
            SessionSpec(), NumberedSource(), sink := RecordingSink(), "a"
        )
        await until(lambda: sink.ready)
        session.start()
        await it.stop_host()
        await until(lambda: sink.failures)
        assert not it.client.status().ready and it.client.status().detail == LOST
        with pytest.raises(EngineFailed):
            await it.client.open(SessionSpec(), NumberedSource(), RecordingSink(), "b")
        session.close()
        it.stepper.steps.clear()
        await it.start_host()
        await until(lambda: it.client.status().ready)
        again = await it.client.open(SessionSpec(), NumberedSource(), sink := RecordingSink(), "c")
        await until(lambda: sink.ready)
        again.start()
        await until(lambda: len(sink.frames) > 3)


async def test_an_engine_that_dies_while_it_opens_a_session_is_a_refusal(tmp_path: Path) -> None:
    async with pair(tmp_path) as it:
        asked = asyncio.Event()

        async def never(*_: object) -> LocalSession:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        assert it.host is not None
        it.host.engine.open = never  # type: ignore[method-assign]
        sink = RecordingSink()
        opening = asyncio.create_task(it.client.open(SessionSpec(), NumberedSource(), sink, "a"))
        await asked.wait()
        await it.stop_host()
        with pytest.raises(EngineFailed, match=LOST):
            await opening


async def test_an_engine_that_says_nothing_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "STALE_S", 0.8)
    monkeypatch.setattr(host, "STATUS_EVERY_S", 0.05)
    async with pair(tmp_path) as it:
        await asyncio.sleep(1)
        await until(lambda: it.client.status().ready)
        monkeypatch.setattr(host, "STATUS_EVERY_S", 600.0)
        await until(lambda: not it.client.status().ready)
        assert it.client.status().detail == client.SILENT
        assert it.client.status().slots == 4


async def test_a_failing_row_and_a_failing_call_end_alone(tmp_path: Path) -> None:
    async with pair(tmp_path, slots=3) as it:
        sinks = [RecordingSink() for _ in range(3)]
        for sink in sinks:
            session = await it.client.open(SessionSpec(), NumberedSource(), sink, "x")
            await until(lambda sink=sink: sink.ready)
            session.start()
        await until(lambda: all(len(sink.frames) > 1 for sink in sinks))
        it.stepper.failed = {0: "not a number"}
        await until(lambda: sinks[0].failures)
        it.stepper.failed = {}

        def fail(frame: object) -> None:
            raise ValueError

        sinks[1].on_frame = fail  # type: ignore[method-assign]
        await until(lambda: sinks[1].failures)
        frames = len(sinks[2].frames)
        await until(lambda: len(sinks[2].frames) > frames + 5)
        assert sinks[0].failures == ["not a number"]
        assert not sinks[2].failures
        assert it.host is not None
        await until(lambda: it.host is not None and it.host.engine.status().slots_free == 2)


async def test_a_call_that_cannot_be_told_anything_cuts_no_other_off(tmp_path: Path) -> None:
    async with pair(tmp_path, slots=3) as it:

        class Deaf(RecordingSink):
            def on_ready(self) -> None:
                raise ValueError

            def on_failed(self, reason: str) -> None:
                super().on_failed(reason)
                raise ValueError

        deaf, other = Deaf(), RecordingSink()
        # Whose endings come one after the other, the broken one first.
        await it.client.open(SessionSpec(), NumberedSource(), deaf, "a")
        await it.client.open(SessionSpec(), NumberedSource(), other, "b")
        await until(lambda: deaf.failures and other.ready)
        assert not other.failures
        never_told = Deaf()
        await it.client.open(SessionSpec(), NumberedSource(), never_told, "c")
        await it.stop_host()
        await until(lambda: other.failures == [LOST])
        await it.start_host()
        await until(lambda: it.client.status().ready)


async def test_what_the_agent_does_not_have_is_refused_without_asking(tmp_path: Path) -> None:
    async with pair(tmp_path) as it:
        it.client.check(SessionSpec())
        with pytest.raises(UnknownVoice):
            it.client.check(SessionSpec(voice="V"))
        with pytest.raises(InvalidPersona):
            it.client.check(SessionSpec(persona="Be brief."))


async def test_reopening_begins_again_in_the_same_slot(tmp_path: Path) -> None:
    async with pair(tmp_path, slots=1) as it:
        session = await it.client.open(
            SessionSpec(), NumberedSource(), sink := RecordingSink(), "a"
        )
        await until(lambda: sink.ready)
        session.start()
        await until(lambda: len(sink.frames) > 3)
        session.reopen(SessionSpec(persona="other"))
        await until(lambda: sink.ready == 2)
        before = len(sink.frames)
        session.start()
        await until(lambda: len(sink.frames) > before + 2)
        assert sink.indices[before] == 0


def test_an_overwritten_frame_is_not_taken_for_another() -> None:
    fd = memory.create(1)
    frames = FrameMemory(fd, 1)
    for tick in range(10):
        frames.put_caller(0, tick, 1, np.full(FRAME_SAMPLES, tick, np.float32))
    assert frames.caller(0, 9, 1) is not None
    assert frames.caller(0, 9 - memory.RING, 1) is None
    assert frames.caller(0, 10, 1) is None
    frames.clear(0)
    assert frames.caller(0, 9, 1) is None
    frames.close()
    os.close(fd)


async def test_a_process_that_does_not_know_yet_that_its_session_ended_is_not_heard_in_its_slot(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path, slots=1) as it:
        gone = await it.client.open(SessionSpec(), NumberedSource(), sink := RecordingSink(), "a")
        await until(lambda: sink.ready)
        gone.start()
        await until(lambda: len(sink.frames) > 2)
        late = next(iter(it.client._sessions.values()))
        assert it.host is not None
        hosted = next(iter(it.host._clients)).sessions.pop(late.key)
        hosted.close()
        await until(lambda: it.host is not None and it.host.engine.status().slots_free == 1)
        late.source.number = 5_000  # type: ignore[attr-defined]
        other = it.new_client()
        await other.start()
        await other.open(SessionSpec(), NumberedSource(), mine := RecordingSink(), "b")
        await until(lambda: mine.ready)
        next(iter(other._sessions.values())).start()
        await until(lambda: len(mine.frames) > 8)
        # Both hand frames over for every tick, into one slot.
        assert late.live and max(mine.values) < 1_000
        await other.aclose()
