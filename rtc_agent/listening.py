"""Where a server listens, and what ends it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator

from aiohttp import web

from rtc_agent.errors import ConfigError


async def listen(runner: web.AppRunner, host: str, port: int) -> str:
    """Listen; the URL of the page there.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {host} port {port}: {error.strerror}. "
            "Choose another with --host and --port (0 takes a free port)."
        ) from error
    bound, port = runner.addresses[0][:2]
    shown = "127.0.0.1" if bound in ("0.0.0.0", "::") else bound
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"


@contextlib.contextmanager
def signals_set(stop: asyncio.Event) -> Iterator[None]:
    """SIGINT and SIGTERM set `stop`."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
