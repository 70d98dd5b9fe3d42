"""What the application is made of; whoever starts it puts these together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from rtc_agent.call.registry import CallRegistry
from rtc_agent.call.transport import Transport, TransportEvents
from rtc_agent.config import IceServer

Answer = Callable[[str, TransportEvents], Awaitable[tuple[Transport, str]]]
"""Makes the transport that answers an SDP offer; returns it with the SDP answer."""


@dataclass(slots=True)
class ServerParts:
    """Everything that the routes need."""

    registry: CallRegistry
    answer: Answer
    ice_servers: list[IceServer]


PARTS = web.AppKey("parts", ServerParts)
