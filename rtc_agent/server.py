"""One server process: puts the rooms together, and takes them apart in order."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable

from aiohttp import web

from rtc_agent.call.limits import CallLimits
from rtc_agent.call.registry import CallRegistry
from rtc_agent.call.transport import Transport, TransportEvents
from rtc_agent.clock import MonotonicClock
from rtc_agent.config import Settings
from rtc_agent.engine.agents import create_stepper
from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.runner import ThreadRunner
from rtc_agent.errors import ConfigError
from rtc_agent.media import aiortc_shim
from rtc_agent.media.ice import IceServer, IceSettings
from rtc_agent.media.peer import WebRtcPeer
from signaling.app import create_app
from signaling.parts import ServerParts

log = logging.getLogger(__name__)

HTTP_CLOSE_S = 1.0
"""How long open HTTP requests may take to finish when the server stops."""


async def run(
    settings: Settings,
    announce: Callable[[str], None],
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM (or `stop`), then end every call with a reason and return.

    Args:
        announce: told the page's URL once calls can be taken.

    Raises:
        ConfigError: the address cannot be listened on, or the agent cannot be run here.
    """
    clock = MonotonicClock()
    aiortc_shim.prepare()
    choice = await asyncio.to_thread(create_stepper, settings, log.info)
    engine = LocalEngine(choice.stepper, clock, ThreadRunner())
    engine.start()
    registry = CallRegistry(engine, _limits(settings), clock)
    registry.start()
    ice = _ice(settings)

    async def answer(sdp: str, events: TransportEvents) -> tuple[Transport, str]:
        return await WebRtcPeer.answer(sdp, events=events, ice=ice, clock=clock)

    app = create_app(ServerParts(registry, answer, settings.ice_servers, choice.notice))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=HTTP_CLOSE_S)
    await runner.setup()
    try:
        url = await _listen(runner, settings)
        if choice.notice:
            log.info("%s", choice.notice)
        announce(url)
        await _stopped(stop or asyncio.Event())
        log.info("stopping: %d calls are told", len(registry))
    finally:
        await registry.aclose(settings.stop_timeout_s)
        await runner.cleanup()
        await engine.aclose()


async def _listen(runner: web.AppRunner, settings: Settings) -> str:
    site = web.TCPSite(runner, settings.host, settings.port)
    try:
        await site.start()
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {settings.host} port {settings.port}: {error.strerror}. "
            "Choose another with --host and --port (0 takes a free port)."
        ) from error
    host, port = runner.addresses[0][:2]
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"


async def _stopped(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    signals: Iterable[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        await stop.wait()
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _limits(settings: Settings) -> CallLimits:
    return CallLimits(
        connect_s=settings.connect_timeout_s,
        vanished_s=settings.vanished_after_s,
        idle_s=settings.idle_limit_s,
        call_s=settings.call_limit_s,
        warning_s=settings.limit_warning_s,
    )


def _ice(settings: Settings) -> IceSettings:
    servers = tuple(
        IceServer(
            urls=(s.urls,) if isinstance(s.urls, str) else tuple(s.urls),
            username=s.username,
            credential=s.credential,
        )
        for s in settings.ice_servers
    )
    return IceSettings(hosts=tuple(settings.ice_hosts), servers=servers)
