"""Where a server listens, and what ends it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator

from aiohttp import web

from rtc_agent.errors import ConfigError
from signaling.app import MAX_ADDRESS_BYTES
from signaling.doorkeeper import GuardedSite


def site_runner(app: web.Application, close_s: float) -> web.AppRunner:
    """What runs an application of ours. At its end, open requests may take `close_s` more."""
    return web.AppRunner(
        app, access_log=None, shutdown_timeout=close_s, max_line_size=MAX_ADDRESS_BYTES
    )


async def listen(
    runner: web.AppRunner,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    *,
    reuse_port: bool = False,
) -> str:
    """Listen; the URL of the page there.

    Args:
        reuse_port: others of this user's processes that say so too may listen there as well.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    try:
        await GuardedSite(runner, host, port, tls, reuse_port=reuse_port).start()
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {host} port {port}: {error.strerror}. "
            "Choose another with --host and --port (0 takes a free port)."
        ) from error
    bound, port = runner.addresses[0][:2]
    shown = "127.0.0.1" if bound in ("0.0.0.0", "::") else bound
    scheme = "http" if tls is None else "https"
    return f"{scheme}://{f'[{shown}]' if ':' in shown else shown}:{port}/"


def require_local(addresses: Iterable[str]) -> None:
    """Calls could be offered on these addresses.

    Raises:
        ConfigError: one of them is not this machine's; no caller would ever come through.
    """
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind((address, 0))
        except OSError as error:
            raise ConfigError(
                f"{address} is not an address of this machine, so that no call can be offered on "
                f"it ({error.strerror}). Leave --ice-host out to offer every address there is."
            ) from error


@contextlib.contextmanager
def signals_set(
    stop: asyncio.Event, reload: Callable[[], None] | None = None
) -> Iterator[asyncio.Event]:
    """SIGINT and SIGTERM set `stop`, and a second one the event that is given: hurry.

    Args:
        reload: what SIGHUP calls; without it, SIGHUP stops the server as it does any program.
    """
    loop = asyncio.get_running_loop()
    hurry = asyncio.Event()

    def on_stop() -> None:
        (hurry if stop.is_set() else stop).set()

    handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM), on_stop)
    if reload is not None:
        handlers[signal.SIGHUP] = reload
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield hurry
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
