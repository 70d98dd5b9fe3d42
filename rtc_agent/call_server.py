"""The calls of one process: its registry, its application, and the way both are taken down."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from rtc_agent.call.limits import CallLimits
from rtc_agent.call.registry import CallRegistry
from rtc_agent.call.transport import Transport, TransportEvents
from rtc_agent.clock import Clock
from rtc_agent.config import Settings
from rtc_agent.engine.client import EngineClient
from rtc_agent.media import aiortc_shim
from rtc_agent.media.ice import IceServer, IceSettings
from rtc_agent.media.moshi_transport import MoshiTransport
from rtc_agent.media.peer import WebRtcPeer
from rtc_agent.protocol.sdp import Flow
from signaling.app import create_app
from signaling.parts import Access, ServerParts, SocketTransport

MAX_ADDRESS_BYTES = 48 * 1024
"""Of a request's first line: Moshi clients write the whole persona into the address."""
HTTP_CLOSE_S = 1.0
"""How long open HTTP requests may take to finish when the server stops."""


class CallServer:
    """Everything of a server but its engine and the place where it listens."""

    def __init__(
        self, settings: Settings, engine: EngineClient, clock: Clock, worker: str = ""
    ) -> None:
        """
        Args:
            worker: this process's name where there are several; ids of its calls begin with it.
        """
        aiortc_shim.prepare()
        self._stop_timeout_s = settings.stop_timeout_s
        self.registry = CallRegistry(engine, limits(settings), clock, name=worker)
        ice = ice_settings(settings)

        async def answer(
            sdp: str, events: TransportEvents, flow: Flow = Flow.CALL
        ) -> tuple[Transport, str]:
            return await WebRtcPeer.answer(sdp, events=events, ice=ice, clock=clock, flow=flow)

        def socket_transport(
            events: TransportEvents, post: Callable[[bytes], bool], close: Callable[[], None]
        ) -> SocketTransport:
            return MoshiTransport(events, post, close)

        access = Access(
            allowed_origins=tuple(settings.allowed_origins),
            whip_strict=settings.whip_strict,
            listen_token=settings.listen_token.get_secret_value(),
        )
        self.parts = ServerParts(
            self.registry,
            answer,
            settings.ice_servers,
            socket_transport=socket_transport,
            access=access,
            clock=clock,
        )
        self.runner = web.AppRunner(
            create_app(self.parts),
            access_log=None,
            shutdown_timeout=HTTP_CLOSE_S,
            max_line_size=MAX_ADDRESS_BYTES,
        )

    async def start(self) -> None:
        self.registry.start()
        await self.runner.setup()

    async def aclose(self) -> None:
        """End every call, tell it why, and stop answering HTTP; within the stop timeout."""
        await self.registry.aclose(self._stop_timeout_s)
        await self.runner.cleanup()


def limits(settings: Settings) -> CallLimits:
    return CallLimits(
        connect_s=settings.connect_timeout_s,
        vanished_s=settings.vanished_after_s,
        idle_s=settings.idle_limit_s,
        call_s=settings.call_limit_s,
        warning_s=settings.limit_warning_s,
        reconnect_s=settings.reconnect_grace_s,
    )


def ice_settings(settings: Settings) -> IceSettings:
    servers = tuple(
        IceServer(
            urls=(s.urls,) if isinstance(s.urls, str) else tuple(s.urls),
            username=s.username,
            credential=s.credential,
        )
        for s in settings.ice_servers
    )
    return IceSettings(hosts=tuple(settings.ice_hosts), servers=servers)
