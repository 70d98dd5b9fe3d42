"""One server process: puts the rooms together, and takes them apart in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator

from aiohttp import web

from rtc_agent.call.limits import CallLimits
from rtc_agent.call.registry import CallRegistry
from rtc_agent.call.transport import Transport, TransportEvents
from rtc_agent.clock import Clock, MonotonicClock
from rtc_agent.config import Settings
from rtc_agent.engine.agents import create_stepper
from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.pending import PendingEngine
from rtc_agent.engine.runner import ThreadRunner
from rtc_agent.errors import ConfigError
from rtc_agent.media import aiortc_shim
from rtc_agent.media.ice import IceServer, IceSettings
from rtc_agent.media.peer import WebRtcPeer
from rtc_agent.threads import in_daemon_thread
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

    HTTP is answered from the start; calls are refused, with how far it is, until the agent is
    loaded.

    Args:
        announce: told the page's URL once calls can be taken.

    Raises:
        ConfigError: the address cannot be listened on, or the agent cannot be run here.
    """
    clock = MonotonicClock()
    stop = stop or asyncio.Event()
    aiortc_shim.prepare()
    engine = PendingEngine(settings.agent)
    registry = CallRegistry(engine, _limits(settings), clock)
    registry.start()
    ice = _ice(settings)

    async def answer(sdp: str, events: TransportEvents) -> tuple[Transport, str]:
        return await WebRtcPeer.answer(sdp, events=events, ice=ice, clock=clock)

    parts = ServerParts(registry, answer, settings.ice_servers)
    runner = web.AppRunner(create_app(parts), access_log=None, shutdown_timeout=HTTP_CLOSE_S)
    await runner.setup()
    try:
        with _signals(stop):
            url = await _listen(runner, settings)
            loading = asyncio.create_task(_load(settings, engine, clock))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if loading.done():
                parts.notice = loading.result()
                announce(url)
                await stopping
            log.info("stopping: %d calls are told", len(registry))
    finally:
        await registry.aclose(settings.stop_timeout_s)
        await runner.cleanup()
        await engine.aclose()


async def _load(settings: Settings, engine: PendingEngine, clock: Clock) -> str:
    """Load the agent off the loop; what a person should know about the choice of it."""

    def report(progress: str) -> None:
        log.info("%s", progress)
        engine.report(progress)

    choice = await in_daemon_thread(lambda: create_stepper(settings, report))
    local = LocalEngine(choice.stepper, clock, ThreadRunner())
    local.start()
    engine.become(local)
    if choice.notice:
        log.info("%s", choice.notice)
    return choice.notice


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


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """SIGINT and SIGTERM set `stop`."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
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
