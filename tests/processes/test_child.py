"""Children that work, die, refuse, hang and do not want to stop, as real processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rtc_agent.processes import child as module
from rtc_agent.processes.child import Child, ChildRefused


@contextlib.asynccontextmanager
async def kept(behaviour: str, folder: Path, timeout_s: float = 5.0) -> AsyncIterator[Child]:
    child = Child("the child", "tests.processes.fake_child", (behaviour, str(folder)), ())
    child.start()
    try:
        yield child
    finally:
        await child.stop(timeout_s)
    assert child.pid is None or not exists(child.pid)


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def runs(folder: Path) -> list[list[int]]:
    """Each start's process id and the parent's that it was given, in order."""
    return [[int(part) for part in file.read_text().split()] for file in sorted(folder.iterdir())]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.02)


async def test_a_child_is_told_its_parent_and_is_ready_when_it_says_so(tmp_path: Path) -> None:
    async with kept("works", tmp_path) as child:
        await child.wait_ready()
        assert child.ready.is_set()
        assert runs(tmp_path) == [[child.pid, os.getpid()]]
        assert child.pid is not None
        assert os.getpgid(child.pid) != os.getpgid(0), "Ctrl-C in a terminal would reach it"


async def test_a_child_that_is_killed_is_started_again(tmp_path: Path) -> None:
    async with kept("works", tmp_path) as child:
        await child.wait_ready()
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        await until(lambda: child.restarts == 1 and child.ready.is_set())
        assert len(runs(tmp_path)) == 2


async def test_a_reload_while_a_child_starts_neither_ends_it_nor_is_missed(tmp_path: Path) -> None:
    async with kept("reloads", tmp_path) as child:
        await until((tmp_path / "begun").exists)
        child.send(signal.SIGHUP)
        (tmp_path / "told").touch()
        await until(child.ready.is_set)
        assert child.restarts == 0
        assert signal.SIGHUP not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


async def test_a_child_that_keeps_dying_is_started_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        if seconds != module.LOOK_EVERY_S:
            pauses.append(seconds)
        await sleep(min(seconds, 0.02))

    monkeypatch.setattr(module, "LONGEST_PAUSE_S", 0.1)
    async with kept("dies", tmp_path) as child:
        with monkeypatch.context() as patch:
            patch.setattr(module.asyncio, "sleep", note)
            while child.restarts < 5:
                await sleep(0.02)
    assert pauses[:5] == [0.02, 0.04, 0.08, 0.1, 0.1]


async def test_a_child_that_refuses_is_not_started_again(tmp_path: Path) -> None:
    async with kept("refuses", tmp_path) as child:
        with pytest.raises(ChildRefused, match="the child"):
            await child.wait_ready()
        await asyncio.sleep(0.2)
        assert len(runs(tmp_path)) == 1


async def test_a_child_that_has_worked_is_started_again_even_if_it_refuses(tmp_path: Path) -> None:
    async with kept("refuses once it has worked", tmp_path) as child:
        await child.wait_ready()
        await until(lambda: len(runs(tmp_path)) == 3 and child.ready.is_set())


async def test_a_child_that_hangs_is_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_S", 1.0)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.1)
    async with kept("hangs", tmp_path) as child:
        await child.wait_ready()
        await until(lambda: child.restarts == 1)
        assert not exists(runs(tmp_path)[0][0])


@pytest.mark.parametrize("behaviour", ["works", "loads long"])
async def test_a_child_that_works_or_loads_is_left_alone(
    behaviour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_S", 1.0)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.1)
    async with kept(behaviour, tmp_path) as child:
        await child.wait_ready()
        await asyncio.sleep(2)
        assert child.restarts == 0


async def test_a_stopped_child_is_killed_while_it_hangs(tmp_path: Path) -> None:
    async with kept("works", tmp_path, timeout_s=0.2) as child:
        await child.wait_ready()
        assert child.pid is not None
        os.kill(child.pid, signal.SIGSTOP)


async def test_a_child_that_does_not_stop_is_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with kept("ignores SIGTERM", tmp_path, timeout_s=0.2) as child:
        await child.wait_ready()
    assert "is killed" in caplog.text


async def test_stopping_ends_a_pause_before_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 60.0)
    async with kept("dies", tmp_path) as child:
        await until(lambda: child.restarts == 1)
        async with asyncio.timeout(5):
            await child.stop(1)
