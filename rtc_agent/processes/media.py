"""A media worker's process: arguments are settings file, engine socket, memory descriptor, HTTP
socket, worker name, parent."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aiohttp import web

from rtc_agent import logs
from rtc_agent.call_server import CallServer
from rtc_agent.clock import MonotonicClock
from rtc_agent.config import Settings
from rtc_agent.engine.remote.client import RemoteEngine
from rtc_agent.engine.remote.memory import FrameMemory
from rtc_agent.processes.signals import until_stopped, watch_parent


async def run(
    settings: Settings, engine_socket: Path, memory_fd: int, http_socket: Path, worker: str
) -> None:
    """Hold the calls that the front gives this worker; until told to stop."""
    clock = MonotonicClock()
    engine = RemoteEngine(engine_socket, FrameMemory(memory_fd, settings.sessions), clock)
    server = CallServer(settings, engine, clock, worker)
    await server.start()
    await web.UnixSite(server.runner, str(http_socket)).start()
    starting = asyncio.create_task(engine.start())
    starting.add_done_callback(_say_ready)
    try:
        await until_stopped()
    finally:
        starting.cancel()
        await server.aclose()
        await engine.aclose()


def _say_ready(started: asyncio.Task[None]) -> None:
    if not started.cancelled():
        sys.stdout.write("ready\n")
        sys.stdout.flush()


def main() -> None:
    settings_file, engine_socket, memory_fd, http_socket, worker, parent = sys.argv[1:]
    settings = Settings.model_validate_json(Path(settings_file).read_text(encoding="utf-8"))
    logs.setup(settings.log_level)
    watch_parent(int(parent))
    asyncio.run(run(settings, Path(engine_socket), int(memory_fd), Path(http_socket), worker))


if __name__ == "__main__":
    main()
