"""The TURN relays that a server names, as the only way to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

from rtc_agent.client.offer import get_json
from rtc_agent.errors import CallRefused, ConfigError
from rtc_agent.media.ice import IceServer, IceSettings

RelayWay = Literal["udp", "tcp", "tls"]
"""How a relay itself is reached; what it passes on to the server is UDP always."""


async def ice_for(url: str, hosts: Iterable[str] | None, relay: str | None) -> IceSettings:
    """How a caller looks for its path: from these local addresses, or by a relay alone.

    Raises:
        ConfigError: both are asked for; else as `through_relay`.
    """
    hosts = tuple(hosts or ())
    if relay is None:
        return IceSettings(hosts=hosts)
    if hosts:
        raise ConfigError("A call by a relay alone offers no local address: leave --ice-host out.")
    return await through_relay(url, relay)


async def through_relay(url: str, way: str) -> IceSettings:
    """Settings by which a call to the server at `url` takes no path but a relay's.

    Args:
        way: a `RelayWay`.

    Raises:
        ConfigError: that is none.
        ServerUnreachable, CallRefused: the server does not say, or names no relay of that kind.
    """
    if way not in get_args(RelayWay):
        raise ConfigError(f"A relay is reached by udp, tcp or tls, not by {way!r}.")
    info = await get_json(url, "/v1/info", timeout_s=10.0)
    relays = tuple(_relays(info.get("ice_servers"), way))
    if not relays:
        needs_key = " It tells them to those with a key (RTC_AGENT_KEY) alone."
        raise CallRefused(
            f"{url} names no TURN relay that is reached by {way} (`ice_servers`)."
            + (needs_key if info.get("needs_key") else "")
        )
    return IceSettings(servers=relays, relay_only=True)


def _relays(servers: Any, way: str) -> list[IceServer]:
    """Those of a server's ICE servers that relay, with only their addresses of that way."""
    found = []
    for server in servers if isinstance(servers, list) else []:
        urls = server.get("urls", [])
        fitting = tuple(u for u in ([urls] if isinstance(urls, str) else urls) if _way(u) == way)
        if fitting:
            found.append(IceServer(fitting, server.get("username"), server.get("credential")))
    return found


def _way(url: str) -> str | None:
    """How a TURN address (RFC 7065) is reached; None: it is another address."""
    if url.startswith("turns:"):
        return "tls"
    if url.startswith("turn:"):
        return "tcp" if url.endswith("?transport=tcp") else "udp"
    return None
