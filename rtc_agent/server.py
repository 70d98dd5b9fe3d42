"""One server process: engine, media and HTTP together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rtc_agent.call_server import CallServer
from rtc_agent.clock import Clock, MonotonicClock
from rtc_agent.config import Settings
from rtc_agent.engine.agents import create_stepper
from rtc_agent.engine.pending import PendingEngine
from rtc_agent.engine.staggered import create_engine
from rtc_agent.exposure import require_keys
from rtc_agent.garbage import settle
from rtc_agent.listening import listen, require_local, signals_set
from rtc_agent.reloading import Reloader, certificate_of, watch_certificate
from rtc_agent.threads import in_daemon_thread

log = logging.getLogger(__name__)


async def run(
    settings: Settings,
    announce: Callable[[str], None],
    stop: asyncio.Event | None = None,
    reread: Callable[[], Settings] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM (or `stop`), then end every call with a reason and return.

    HTTP is answered from the start; calls are refused, with how far it is, until the agent is
    loaded.

    Args:
        announce: told the page's URL once calls can be taken.
        reread: gives the settings anew, for SIGHUP.

    Raises:
        ConfigError: the address cannot be listened on, or the agent cannot be run here.
    """
    require_local(settings.ice_hosts)
    require_keys(settings)
    certificate = certificate_of(settings)
    clock = MonotonicClock()
    stop = stop or asyncio.Event()
    engine = PendingEngine(settings.agent)
    server = CallServer(settings, engine, clock)
    await server.start()
    reloader = Reloader(settings, reread, server.use, certificate)
    try:
        with signals_set(stop, reloader) as hurry:
            tls = None if certificate is None else certificate.context
            url = await listen(server.runner, settings.host, settings.port, tls)
            watch = asyncio.create_task(watch_certificate(certificate))
            loading = asyncio.create_task(_load(settings, engine, clock))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if loading.done():
                loading.result()
                if server.phone is not None:
                    server.phone.start()
                announce(url)
                await stopping
            watch.cancel()
            await server.registry.drain(reloader.settings.drain_s, hurry)
            log.info("stopping: %d calls are told", len(server.registry))
    finally:
        await server.aclose()
        await engine.aclose()


async def _load(settings: Settings, engine: PendingEngine, clock: Clock) -> None:
    """Load the agent, off the loop."""

    def report(progress: str) -> None:
        log.info("%s", progress)
        engine.report(progress)

    choice = await in_daemon_thread(lambda: create_stepper(settings, report))
    local = create_engine(choice.stepper, clock, choice.notice)
    settle()
    local.start()
    engine.become(local)
    choice.tell(log)
