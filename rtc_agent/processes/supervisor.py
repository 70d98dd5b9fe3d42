"""The parent of the engine's process and the media workers: starts, keeps and fronts them."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

from aiohttp import web
from pydantic import SecretStr

from rtc_agent.config import Settings, dump
from rtc_agent.engine.remote import memory
from rtc_agent.errors import ConfigError
from rtc_agent.exposure import access, guard_rules, require_keys
from rtc_agent.listening import listen, require_local, signals_set
from rtc_agent.processes.child import Child, ChildRefused
from rtc_agent.reloading import Reloader, certificate_of, watch_certificate
from signaling.app import MAX_ADDRESS_BYTES
from signaling.front import Front

log = logging.getLogger(__name__)

FRONT_CLOSE_S = 0.5
"""How long open requests may take to finish once the workers have gone."""
KILL_AFTER_S = 1.0
"""What a child gets beyond the time that calls have to close."""


async def run(
    settings: Settings,
    announce: Callable[[str], None],
    stop: asyncio.Event | None = None,
    reread: Callable[[], Settings] | None = None,
) -> None:
    """As `rtc_agent.server.run`, with the engine and the media in processes of their own."""
    if settings.telephony.enabled:
        raise ConfigError(
            "The phone line runs in a server of one process: leave media_workers out, or run "
            "`rtc-agent sip` beside this one."
        )
    require_local(settings.ice_hosts)
    require_keys(settings)
    certificate = certificate_of(settings)
    stop = stop or asyncio.Event()
    if not settings.token_secret.get_secret_value():
        # Made here, so that every worker takes the client secrets of every other.
        made = SecretStr(secrets.token_urlsafe(32))
        settings = settings.model_copy(update={"token_secret": made})
    reloader = Reloader(settings, reread, lambda changed: None, certificate)
    with (
        signals_set(stop, lambda: reloader()) as hurry,
        tempfile.TemporaryDirectory(prefix="rtc-agent-") as folder,
    ):
        fd = memory.create(settings.sessions)
        watch = asyncio.create_task(watch_certificate(certificate))
        try:
            await _run_in(Path(folder), fd, reloader, announce, stop, hurry)
        finally:
            watch.cancel()
            os.close(fd)


def _write_settings(file: Path, settings: Settings) -> None:
    """What the children read. Limits by address and key are kept by the front alone."""
    theirs = settings.model_copy(update={"offers_per_minute": 0, "key_offers_per_minute": 0})
    fresh = file.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(dump(theirs), encoding="utf-8")
    fresh.replace(file)


async def _run_in(
    folder: Path,
    fd: int,
    reloader: Reloader,
    announce: Callable[[str], None],
    stop: asyncio.Event,
    hurry: asyncio.Event,
) -> None:
    settings = reloader.settings
    settings_file, engine_socket = folder / "settings.json", folder / "engine.sock"
    _write_settings(settings_file, settings)
    common = (str(settings_file), str(engine_socket), str(fd))
    sockets = {f"w{i}": folder / f"w{i}.sock" for i in range(settings.media_workers)}
    engine = Child("the engine", "rtc_agent.processes.engine", common, (fd,))
    workers = [
        Child(
            f"media worker {name}", "rtc_agent.processes.media", (*common, str(path), name), (fd,)
        )
        for name, path in sockets.items()
    ]
    front = Front(sockets, access(settings))

    def use(changed: Settings) -> None:
        front.guard.use(guard_rules(changed))
        _write_settings(settings_file, changed)
        for worker in workers:
            worker.send(signal.SIGHUP)

    reloader.use = use
    front.restarts = lambda: {child.name: child.restarts for child in (engine, *workers)}
    runner = web.AppRunner(
        front.app(),
        access_log=None,
        shutdown_timeout=FRONT_CLOSE_S,
        max_line_size=MAX_ADDRESS_BYTES,
    )
    for child in (engine, *workers):
        child.start()
    try:
        await runner.setup()
        tls = None if reloader.certificate is None else reloader.certificate.context
        url = await listen(runner, settings.host, settings.port, tls)
        waiting = asyncio.create_task(_all_ready([engine, *workers]))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
            announce(url)
            await stopping
        waiting.cancel()
    finally:
        grace_s = reloader.settings.drain_s + settings.stop_timeout_s + KILL_AFTER_S
        hurrying = asyncio.create_task(_pass_on(hurry, workers))
        await asyncio.gather(*(worker.stop(grace_s) for worker in workers))
        hurrying.cancel()
        await asyncio.gather(runner.cleanup(), engine.stop(KILL_AFTER_S))


async def _pass_on(hurry: asyncio.Event, workers: list[Child]) -> None:
    await hurry.wait()
    for worker in workers:
        worker.send(signal.SIGTERM)


async def _all_ready(children: list[Child]) -> None:
    try:
        await asyncio.gather(*(child.wait_ready() for child in children))
    except ChildRefused as refused:
        raise ConfigError(f"Cannot start: {refused} refused; its reason is above.") from refused
