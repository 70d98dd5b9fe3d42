"""Ports that a firewall was told of."""

from __future__ import annotations

import errno
import socket

from aiohttp import web

from rtc_agent.errors import ConfigError
from rtc_agent.listening import listen


async def listen_in(runner: web.AppRunner, host: str, ports: str) -> str:
    """Listen on the first free port of a range such as `20000-20031`, or on any; the URL there.

    Raises:
        ConfigError: none is free, or the address is not this host's.
    """
    if not ports:
        return await listen(runner, host, 0)
    first, _, last = ports.partition("-")
    for port in range(int(first), int(last) + 1):
        if is_free(host, port):
            return await listen(runner, host, port)
    raise ConfigError(f"No port of {ports} is free on {host}; `replica_ports` takes a wider range.")


def is_free(host: str, port: int) -> bool:
    """Whether nobody listens there. An address that cannot be listened on for another reason counts
    as free, so that listening there says why not."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True
