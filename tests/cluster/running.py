"""`rtc-agent cluster up` in a process of its own, and callers, as its users have them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from tests.media.peers import Caller
from tests.process_tree import command_line, family
from tests.real_server import command

START_TIMEOUT_S = 100.0
STOP_TIMEOUT_S = 40.0
ATTEMPTS = 3
SLOW = "timed out during startup"
"""Ray gives itself half a minute to start, which a busy machine may not have."""
WAIT_S = 40.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, one after the other."""
    for first in range(20_000 + os.getpid() % 5_000, 30_000):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    probe = stack.enter_context(socket.socket())
                    probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return list(range(first, first + count))
    raise AssertionError("no free ports")


class Cluster:
    """A running cluster, as its operator sees it."""

    def __init__(self, name: str, config: Path, process: Process, fronts: list[str]) -> None:
        self.name = name
        self.config = config
        self.process = process
        self.fronts = fronts
        """Their addresses."""
        self.log = ""
        self.http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=15))

    @classmethod
    async def start(cls, folder: Path, top: str = "", server: str = "") -> Cluster:
        front, _, ray = free_ports(3)
        name = f"test-{front}"
        config = folder / "cluster.toml"
        config.write_text(
            f'name = "{name}"\nreplicas = 2\nfronts = 2\ncpus = 0.1\nray_port = {ray}\n{top}\n'
            f'[server]\nagent = "echo"\nsessions = 2\nport = {front}\n'
            f'ice_hosts = ["127.0.0.1"]\n{server}\n'
        )
        for _ in range(ATTEMPTS):
            process = await command(
                *("cluster", "up", "--config", str(config)), stdout=PIPE, stderr=PIPE
            )
            fronts, said = await _ready(process)
            if fronts or SLOW not in said:
                break
        assert fronts, f"the cluster did not start: {said}"
        cluster = cls(name, config, process, sorted(fronts))
        cluster._reader = asyncio.create_task(cluster._read())
        return cluster

    async def _read(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.log += line.decode()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it; its exit status."""
        await self.http.close()
        if self.process.returncode is None:
            self.process.send_signal(number)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            raise
        await self._reader
        assert self.process.returncode is not None
        return self.process.returncode

    async def run(self, *arguments: str) -> str:
        """What `rtc-agent cluster …` writes. It must succeed."""
        process = await command("cluster", *arguments, stdout=PIPE, stderr=PIPE)
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    async def status(self, front: int = 0) -> dict[str, Any]:
        return await self.get("/v1/cluster", front)

    async def get(self, path: str, front: int = 0) -> dict[str, Any]:
        async with self.http.get(f"{self.fronts[front]}{path}") as answer:
            assert answer.status == 200, await answer.text()
            found: dict[str, Any] = await answer.json()
            return found

    async def replicas(self, front: int = 0) -> dict[str, dict[str, Any]]:
        """Those that serve, by id."""
        parts = (await self.status(front))["replicas"]
        return {part["id"]: part for part in parts if part["phase"] == "serving"}

    async def free(self, front: int = 0) -> int:
        return int((await self.get("/v1/info", front))["slots"]["free"])

    async def whole(self, slots: int = 4) -> bool:
        """Whether all is as at the beginning, in the eyes of every front."""
        return all([await self.free(front) == slots for front in range(len(self.fronts))])


async def _ready(process: Process) -> tuple[list[str], str]:
    """Addresses of the fronts once they are ready, or what was said instead."""
    assert process.stdout is not None
    fronts: list[str] = []
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while len(fronts) < 2:
                line = (await process.stdout.readline()).decode()
                if not line:
                    _, said = await process.communicate()
                    return [], said.decode()
                if line.startswith("ready "):
                    fronts.append(line.split()[1].rstrip("/"))
    except TimeoutError:
        process.kill()  # What it has started goes with it.
        raise
    return fronts, ""


class Person:
    """A caller that comes back under the id it was given, by whichever front."""

    def __init__(self, cluster: Cluster, front: int = 0) -> None:
        self.cluster = cluster
        self.front = front
        self.pc_id: str | None = None
        self.caller = Caller()

    async def offer(self) -> tuple[int, dict[str, Any]]:
        """Offer a call, or come back to it; the answer's status and body."""
        body = {
            "sdp": await self.caller.offer(),
            "type": "offer",
            "pc_id": self.pc_id,
            "restart_pc": self.pc_id is not None,
        }
        url = f"{self.cluster.fronts[self.front]}/api/offer"
        async with self.cluster.http.post(url, json=body) as response:
            status, answer = response.status, await response.json()
            if status == 503:
                assert response.headers["Retry-After"].isdigit()
        if status == 200:
            self.pc_id = answer["pc_id"]
            await self.caller.accept(answer["sdp"])
        return status, answer

    @property
    def replica(self) -> str:
        assert self.pc_id is not None
        return self.pc_id.split("-")[0]

    def told(self, type_: str) -> list[dict[str, Any]]:
        """Messages of that type on the current connection."""
        found = [json.loads(text) for text in self.caller.messages]
        return [message for message in found if message["type"] == type_]

    @property
    def frame(self) -> int:
        """How far the conversation is, as the agent last said."""
        return max(
            (int(json.loads(text).get("frame", 0)) for text in self.caller.messages), default=0
        )

    async def ready(self) -> dict[str, Any]:
        await until(lambda: self.told("ready"))
        return self.told("ready")[0]

    async def afresh(self) -> None:
        """Another connection, the old one being of no use."""
        await self.caller.close()
        self.caller = Caller()


@contextlib.asynccontextmanager
async def calling(cluster: Cluster, front: int = 0) -> AsyncIterator[Person]:
    """Somebody on a live call."""
    person = Person(cluster, front)
    try:
        status, answer = await person.offer()
        assert status == 200, answer
        await person.ready()
        yield person
    finally:
        await person.caller.close()


async def until(
    condition: Callable[[], object] | Callable[[], Awaitable[object]], seconds: float = WAIT_S
) -> None:
    async with asyncio.timeout(seconds):
        while True:
            outcome = condition()
            if await outcome if isinstance(outcome, Awaitable) else outcome:
                return
            await asyncio.sleep(0.05)


def descendants(pid: int) -> set[int]:
    """Processes that this one has started, and those that they have."""
    return set(family(pid)) - {pid}


def actor(ancestor: int, kind: str) -> int:
    """The process of the one actor of that kind; Ray names processes by what they are."""
    found = [pid for pid in descendants(ancestor) if kind in command_line(pid)]
    assert len(found) == 1, found
    return found[0]


def folders_of(processes: set[int]) -> set[str]:
    """Folders for temporary files of this server that the processes were told of."""
    found: set[str] = set()
    for pid in processes:
        words = command_line(pid).replace("=", "\0")
        found |= set(re.findall(rf"{tempfile.gettempdir()}/rtc-agent-\w{{8}}", words))
    return found
