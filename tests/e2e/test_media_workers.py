"""`serve --media-workers`: real processes that are killed, stopped and hung under real calls."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from rtc_agent.client.call_client import CallClient
from rtc_agent.client.messages import ReceivedMessage
from rtc_agent.client.offer import SmallWebRtcSignaling
from rtc_agent.errors import CallRefused
from rtc_agent.media.ice import IceSettings
from tests.process_tree import command_line, family, is_alive
from tests.real_server import RealServer, command

SESSIONS = 4
ICE = IceSettings(hosts=("127.0.0.1",))
MEDIA, ENGINE = "rtc_agent.processes.media", "rtc_agent.processes.engine"


class Server:
    """A running server of several processes, and calls to it."""

    def __init__(self, server: RealServer, calls: contextlib.AsyncExitStack) -> None:
        self.real = server
        self._calls = calls

    async def call(self) -> CallClient:
        """A live call."""
        signaling = SmallWebRtcSignaling(self.real.url)
        client = await self._calls.enter_async_context(CallClient(signaling, ice=ICE))
        await client.connect()
        await client.wait_ready()
        return client

    async def free(self, slots: int) -> bool:
        """Whether so many slots are free."""
        return await self.real.free_slots() == slots

    async def ticked(self, ticks: int) -> bool:
        """Whether the engine has made so many steps."""
        return bool((await self.real.info())["engine"]["ticks"] >= ticks)

    async def ready(self) -> bool:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{self.real.url}/readyz") as response,
        ):
            return response.status == 200

    def processes(self) -> dict[str, int]:
        """Process ids of the engine and of each worker by its name."""
        found = {}
        for pid in family(self.real.process.pid):
            words = command_line(pid).split("\0")
            if ENGINE in words:
                found["engine"] = pid
            elif MEDIA in words:
                found[words[-3]] = pid
        return found


@contextlib.asynccontextmanager
async def serving(*options: str) -> AsyncIterator[Server]:
    """A server of two workers. Its log must be free of traces."""
    real = await RealServer.start(
        *("--agent", "echo", "--sessions", str(SESSIONS), "--media-workers", "2", *options)
    )
    try:
        async with contextlib.AsyncExitStack() as calls:
            yield Server(real, calls)
    finally:
        if real.process.returncode is None:
            await real.stop()
    assert "Traceback" not in real.log, real.log
    assert "never retrieved" not in real.log, real.log


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            outcome = condition()
            if await outcome if isinstance(outcome, Awaitable) else outcome:
                return
            await asyncio.sleep(0.05)


def worker_of(call: CallClient) -> str:
    assert call.call_id is not None
    return call.call_id.split("-")[1]


async def test_a_killed_worker_takes_its_own_calls_only_and_comes_back() -> None:
    async with serving() as server:
        calls = [await server.call() for _ in range(2)]
        assert {worker_of(call) for call in calls} == {"w0", "w1"}
        doomed = next(call for call in calls if worker_of(call) == "w0")
        kept = next(call for call in calls if worker_of(call) == "w1")
        await until(lambda: kept.log.last_arrival_s)
        os.kill(server.processes()["w0"], signal.SIGKILL)
        await until(lambda: server.free(SESSIONS - 1))
        await until(lambda: "w0" in server.processes())
        heard = kept.log.last_arrival_s
        assert heard is not None
        await until(lambda: (kept.log.last_arrival_s or 0) > heard + 1)
        assert kept.ended is None and doomed.log.last_arrival_s is not None
        assert doomed.log.last_arrival_s < heard + 1

        async def takes_calls_again() -> bool:
            call = await server.call()
            await call.aclose()
            return worker_of(call) == "w0"

        await until(takes_calls_again)


async def test_a_killed_engine_ends_the_calls_of_all_banks_with_a_reason_and_comes_back() -> None:
    async with serving("--banks", "2") as server:
        calls = [await server.call() for _ in range(3)]
        await until(lambda: all(call.log.last_arrival_s for call in calls))
        os.kill(server.processes()["engine"], signal.SIGKILL)
        await until(lambda: all(call.ended for call in calls))
        assert {call.ended for call in calls} == {"agent_failed"}
        words = [message.body["message"] for call in calls for message in call.messages[-1:]]
        assert words == ["The engine's process went away."] * 3
        await until(server.ready)
        again = [await server.call() for _ in range(2)]
        await until(lambda: server.free(SESSIONS - 2))
        await until(lambda: all(call.log.last_arrival_s for call in again))
        assert (await server.real.info())["engine"]["banks"] == 2


async def test_offers_while_the_engine_is_gone_are_refused_with_a_reason() -> None:
    async with serving() as server:
        engine = server.processes()["engine"]
        os.kill(engine, signal.SIGSTOP)
        opening = asyncio.create_task(server.call())
        await asyncio.sleep(0.5)
        os.kill(engine, signal.SIGKILL)
        with pytest.raises(CallRefused, match=r"\(503\)"):
            await opening


async def test_an_engine_that_stands_still_for_seconds_leaves_no_lag() -> None:
    async with serving() as server:
        call = await server.call()
        live_s = call.clock.now()
        await until(lambda: server.ticked(10))
        engine = server.processes()["engine"]
        os.kill(engine, signal.SIGSTOP)
        await until(lambda: not_ready(server))
        os.kill(engine, signal.SIGCONT)
        await until(server.ready)
        await until(lambda: any(m.body.get("code") == "overload" for m in call.messages))
        assert call.ended is None
        assert engine == server.processes()["engine"]
        seen = len(call.messages)

        def lag_s(stats: ReceivedMessage) -> float:
            # Frames that were left out count: the call's time is the world's.
            behind_s = abs(stats.body["t_ms"] / 1e3 - (stats.arrival_s - live_s))
            buffered_ms = stats.body["playout_buffer_ms"] + stats.body["receive_buffer_ms"]
            return float(behind_s + buffered_ms / 1e3)

        # This machine may stall by itself too; what counts is that lag does not stay.
        await until(
            lambda: any(lag_s(m) < 1 for m in call.messages[seen:] if m.type == "stats"), 60
        )


async def not_ready(server: Server) -> bool:
    return not await server.ready()


async def test_a_hung_worker_is_replaced_and_its_slots_return() -> None:
    async with serving() as server:
        call = await server.call()
        hung = server.processes()[worker_of(call)]
        os.kill(hung, signal.SIGSTOP)
        await until(lambda: not is_alive(hung), 30)
        await until(lambda: server.free(SESSIONS))
        await until(lambda: worker_of(call) in server.processes())


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_callers_are_told_when_the_server_stops(stop: signal.Signals) -> None:
    async with serving() as server:
        calls = [await server.call() for _ in range(3)]
        processes = server.processes()
        began = asyncio.get_running_loop().time()
        server.real.process.send_signal(stop)
        await server.real.process.wait()
        assert asyncio.get_running_loop().time() - began < 10
        await until(lambda: all(call.ended for call in calls))
        assert {call.ended for call in calls} == {"server_stopping"}
        assert server.real.process.returncode == 0
        assert not any(is_alive(pid) for pid in processes.values())


async def test_a_killed_server_leaves_no_process_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    async with serving() as server:
        call = await server.call()
        processes = server.processes()
        assert set(processes) == {"engine", "w0", "w1"}
        assert os.listdir(tmp_path)
        server.real.process.kill()
        await until(lambda: not any(is_alive(pid) for pid in processes.values()))
        await until(lambda: call.ended)
        assert not os.listdir(tmp_path)


async def test_ctrl_c_while_it_starts_ends_everything_quietly() -> None:
    for delay_s in (0.5, 1.0, 1.5):
        process = await command(
            *("serve", "--agent", "echo", "--port", "0", "--media-workers", "2"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        await asyncio.sleep(delay_s)
        # What a terminal does: the signal goes to the whole process group.
        os.killpg(process.pid, signal.SIGINT)
        try:
            async with asyncio.timeout(10):
                _, err = await process.communicate()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert b"Traceback" not in err, err.decode()


async def test_workers_know_secrets_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_AGENT_LISTEN_TOKEN", "a secret")
    async with serving() as server, aiohttp.ClientSession() as http:
        statuses = {}
        for key in ("a secret", "**********"):
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/sdp"}
            address = f"{server.real.url}/whep/call-w0-00000000"
            async with http.post(address, data="v=0", headers=headers) as response:
                statuses[key] = response.status
        assert statuses == {"a secret": 404, "**********": 401}
