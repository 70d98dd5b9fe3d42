"""The processes of one server: its engine, and the workers that hold calls."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from rtc_agent.config import Settings, dump
from rtc_agent.engine.remote import memory
from rtc_agent.errors import ConfigError
from rtc_agent.processes.child import Child, ChildRefused

KILL_AFTER_S = 1.0
"""What a child gets beyond the time that calls have to close."""


class ProcessGroup:
    """Started together, kept running and ended in order. `close` it in any case."""

    def __init__(self, settings: Settings, folder: Path, prefix: str = "") -> None:
        """
        Args:
            folder: for the sockets and settings that the processes share; nobody else's.
            prefix: what ids of calls begin with, before their worker's name.
        """
        self._settings = settings
        self._file = folder / "settings.json"
        self._memory = memory.create(settings.sessions)
        engine_socket = folder / "engine.sock"
        common = (str(self._file), str(engine_socket), str(self._memory))
        self.sockets: Mapping[str, Path] = {
            f"w{i}": folder / f"w{i}.sock" for i in range(settings.media_workers)
        }
        """Worker name → the local socket where its application listens."""
        inherited = (self._memory,)
        self.engine = Child("the engine", "rtc_agent.processes.engine", common, inherited)
        self.workers = [
            Child(
                f"media worker {prefix}{name}",
                "rtc_agent.processes.media",
                (*common, str(path), f"{prefix}{name}"),
                inherited,
            )
            for name, path in self.sockets.items()
        ]
        self._write(settings)

    def start(self) -> None:
        for child in self._children:
            child.start()

    async def wait_ready(self) -> None:
        """Until calls can be taken.

        Raises:
            ConfigError: a process says that it cannot run here.
        """
        try:
            await asyncio.gather(*(child.wait_ready() for child in self._children))
        except ChildRefused as refused:
            raise ConfigError(f"Cannot start: {refused} refused; its reason is above.") from refused

    def use(self, settings: Settings) -> None:
        """Have the workers go by what of these settings can change while calls are in progress."""
        self._settings = settings
        self._write(settings)
        for worker in self.workers:
            worker.send(signal.SIGHUP)

    def restarts(self) -> dict[str, int]:
        """How often each process was started again."""
        return {child.name: child.restarts for child in self._children}

    async def stop_workers(self, hurry: asyncio.Event) -> None:
        """End the calls: at once if there are none, else as the settings say.

        Args:
            hurry: ends the time that calls in progress may go on.
        """
        settings = self._settings
        grace_s = settings.drain_s + settings.stop_timeout_s + KILL_AFTER_S
        hurrying = asyncio.create_task(self._pass_on(hurry))
        await asyncio.gather(*(worker.stop(grace_s) for worker in self.workers))
        hurrying.cancel()

    async def stop_engine(self) -> None:
        await self.engine.stop(KILL_AFTER_S)

    def close(self) -> None:
        os.close(self._memory)

    @property
    def _children(self) -> list[Child]:
        return [self.engine, *self.workers]

    def _write(self, settings: Settings) -> None:
        """What the processes read. Limits by address and key are kept by the front alone."""
        theirs = settings.model_copy(update={"offers_per_minute": 0, "key_offers_per_minute": 0})
        fresh = self._file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(dump(theirs), encoding="utf-8")
        fresh.replace(self._file)

    async def _pass_on(self, hurry: asyncio.Event) -> None:
        await hurry.wait()
        for worker in self.workers:
            worker.send(signal.SIGTERM)
