"""A media worker's process: arguments are settings file, engine socket, memory descriptor, HTTP
socket, worker name, parent."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from rtc_agent import logs
from rtc_agent.call_server import CallServer
from rtc_agent.clock import MonotonicClock
from rtc_agent.config import Settings
from rtc_agent.engine.remote.client import RemoteEngine
from rtc_agent.engine.remote.memory import FrameMemory
from rtc_agent.errors import RtcAgentError
from rtc_agent.garbage import settle
from rtc_agent.processes.child import REFUSAL
from rtc_agent.processes.signals import child_of, tell_parent, until_stopped
from rtc_agent.reloading import Reloader

log = logging.getLogger("rtc_agent.processes.media")


async def run(
    settings: Settings,
    engine_socket: Path,
    memory_fd: int,
    http_socket: Path,
    worker: str,
    reread: Callable[[], Settings],
) -> None:
    """Hold the calls that the front gives this worker; until told to stop."""
    clock = MonotonicClock()
    engine = RemoteEngine(engine_socket, FrameMemory(memory_fd, settings.sessions), clock)
    server = CallServer(settings, engine, clock, worker)
    await server.start()
    await web.UnixSite(server.runner, str(http_socket)).start()
    # Before the engine is there: it takes a while, in which no call is to be held up.
    settle()
    starting = asyncio.create_task(engine.start())
    starting.add_done_callback(_say_ready)
    reloader = Reloader(settings, reread, server.use)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, reloader)
    # Blocked by the parent until now, so that no reload is missed that came meanwhile.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    try:
        await until_stopped()
        hurry = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, hurry.set)
        await server.registry.drain(reloader.settings.drain_s, hurry)
    finally:
        starting.cancel()
        await server.aclose()
        await engine.aclose()


def _say_ready(started: asyncio.Task[None]) -> None:
    if not started.cancelled():
        tell_parent("ready")


def _read(settings_file: Path) -> Settings:
    return Settings.model_validate_json(settings_file.read_text(encoding="utf-8"))


def main() -> None:
    settings_file, engine_socket, memory_fd, http_socket, worker, parent = sys.argv[1:]
    with child_of(int(parent), Path(settings_file).parent):
        settings = _read(Path(settings_file))
        logs.setup(settings.log_level, settings.log_format)
        try:
            asyncio.run(
                run(
                    settings,
                    Path(engine_socket),
                    int(memory_fd),
                    Path(http_socket),
                    worker,
                    lambda: _read(Path(settings_file)),
                )
            )
        except RtcAgentError as error:
            log.error("%s", error.message)
            sys.exit(REFUSAL)


if __name__ == "__main__":
    main()
