"""The parent of the engine's process and the media workers: starts, keeps and fronts them."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from rtc_agent.config import Settings
from rtc_agent.errors import ConfigError
from rtc_agent.exposure import access, guard_rules, require_keys
from rtc_agent.listening import listen, require_local, signals_set, site_runner
from rtc_agent.processes.group import ProcessGroup
from rtc_agent.reloading import Reloader, certificate_of, watch_certificate
from signaling.front import Front

FRONT_CLOSE_S = 0.5
"""How long open requests may take to finish once the workers have gone."""


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
        group = ProcessGroup(settings, Path(folder))
        watch = asyncio.create_task(watch_certificate(certificate))
        try:
            await _run(group, reloader, announce, stop, hurry)
        finally:
            watch.cancel()
            group.close()


async def _run(
    group: ProcessGroup,
    reloader: Reloader,
    announce: Callable[[str], None],
    stop: asyncio.Event,
    hurry: asyncio.Event,
) -> None:
    settings = reloader.settings
    front = Front(group.sockets, access(settings))

    def use(changed: Settings) -> None:
        front.guard.use(guard_rules(changed))
        group.use(changed)

    reloader.use = use
    front.restarts = group.restarts
    runner = site_runner(front.app(), FRONT_CLOSE_S)
    group.start()
    try:
        await runner.setup()
        tls = None if reloader.certificate is None else reloader.certificate.context
        url = await listen(runner, settings.host, settings.port, tls)
        waiting = asyncio.create_task(group.wait_ready())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
            announce(url)
            await stopping
        waiting.cancel()
    finally:
        front.stopping = True
        await group.stop_workers(hurry)
        await asyncio.gather(runner.cleanup(), group.stop_engine())
