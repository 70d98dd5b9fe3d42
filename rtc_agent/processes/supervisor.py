"""The parent of the engine's process and the media workers: starts, keeps and fronts them."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from rtc_agent.config import Settings, dump
from rtc_agent.engine.remote import memory
from rtc_agent.errors import ConfigError
from rtc_agent.listening import listen, require_local, signals_set
from rtc_agent.processes.child import Child, ChildRefused
from signaling.front import Front

log = logging.getLogger(__name__)

FRONT_CLOSE_S = 0.5
"""How long open requests may take to finish once the workers have gone."""
KILL_AFTER_S = 1.0
"""What a child gets beyond the time that calls have to close."""


async def run(
    settings: Settings, announce: Callable[[str], None], stop: asyncio.Event | None = None
) -> None:
    """As `rtc_agent.server.run`, with the engine and the media in processes of their own."""
    require_local(settings.ice_hosts)
    stop = stop or asyncio.Event()
    with signals_set(stop), tempfile.TemporaryDirectory(prefix="rtc-agent-") as folder:
        fd = memory.create(settings.sessions)
        try:
            await _run_in(Path(folder), fd, settings, announce, stop)
        finally:
            os.close(fd)


async def _run_in(
    folder: Path, fd: int, settings: Settings, announce: Callable[[str], None], stop: asyncio.Event
) -> None:
    settings_file, engine_socket = folder / "settings.json", folder / "engine.sock"
    settings_file.touch(mode=0o600)
    settings_file.write_text(dump(settings), encoding="utf-8")
    common = (str(settings_file), str(engine_socket), str(fd))
    sockets = {f"w{i}": folder / f"w{i}.sock" for i in range(settings.media_workers)}
    engine = Child("the engine", "rtc_agent.processes.engine", common, (fd,))
    workers = [
        Child(
            f"media worker {name}", "rtc_agent.processes.media", (*common, str(path), name), (fd,)
        )
        for name, path in sockets.items()
    ]
    runner = web.AppRunner(Front(sockets).app(), access_log=None, shutdown_timeout=FRONT_CLOSE_S)
    for child in (engine, *workers):
        child.start()
    try:
        await runner.setup()
        url = await listen(runner, settings.host, settings.port)
        waiting = asyncio.create_task(_all_ready([engine, *workers]))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
            announce(url)
            await stopping
        waiting.cancel()
    finally:
        grace_s = settings.stop_timeout_s + KILL_AFTER_S
        await asyncio.gather(*(worker.stop(grace_s) for worker in workers))
        await asyncio.gather(runner.cleanup(), engine.stop(KILL_AFTER_S))


async def _all_ready(children: list[Child]) -> None:
    try:
        await asyncio.gather(*(child.wait_ready() for child in children))
    except ChildRefused as refused:
        raise ConfigError(f"Cannot start: {refused} refused; its reason is above.") from refused
