"""Clients that connect and say nothing: a listening socket that does not wait for them for ever.

The web server closes an idle connection after a request, and not before the first one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from aiohttp import web

HEAD_S = 10.0
"""How long the head of a connection's first request may take, a TLS handshake not counted."""
MAX_CONNECTIONS = 4_000
"""Further ones are closed at once: descriptors are kept for calls."""
_END = b"\r\n\r\n"


class Door:
    """Makes connections' protocols, as `create_server` wants them, and counts the open ones."""

    def __init__(
        self,
        inner: Callable[[], asyncio.Protocol],
        head_s: float = HEAD_S,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self.open = 0
        self._inner = inner
        self.head_s = head_s
        self.max_connections = max_connections

    def __call__(self) -> asyncio.Protocol:
        return _Visitor(self, self._inner())


class _Visitor(asyncio.Protocol):
    """One connection. It only looks on while bytes pass to and from the web server."""

    def __init__(self, door: Door, inner: asyncio.Protocol) -> None:
        self._door = door
        self._inner = inner
        self._tail = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._door.open += 1
        self._inner.connection_made(transport)
        if self._door.open > self._door.max_connections:
            transport.abort()
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._door.head_s, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._timer is not None:
            self._tail = self._tail[-len(_END) + 1 :] + data
            if _END in self._tail:
                self._see()
            else:
                self._tail = self._tail[-len(_END) + 1 :]
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._door.open -= 1
        self._see()
        self._inner.connection_lost(error)

    def _see(self) -> None:
        """There is nothing more to wait for."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tail = b""


class GuardedSite(web.TCPSite):
    """A listening socket with a `Door`."""

    def __init__(
        self,
        runner: web.AppRunner,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        head_s: float = HEAD_S,
        reuse_port: bool = False,
    ) -> None:
        super().__init__(runner, host, port, ssl_context=tls, reuse_port=reuse_port or None)
        self._head_s = head_s

    async def start(self) -> None:
        await web.BaseSite.start(self)
        server = self._runner.server
        assert server is not None
        self._server = await asyncio.get_running_loop().create_server(
            Door(server, self._head_s),
            self._host,
            self._port,
            ssl=self._ssl_context,
            ssl_handshake_timeout=HEAD_S if self._ssl_context else None,
            backlog=self._backlog,
            reuse_port=self._reuse_port,
        )
