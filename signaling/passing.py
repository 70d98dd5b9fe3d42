"""Passes a request on to another process of ours, and its answer back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web

from signaling.errors import error_response
from signaling.guard import HOLDER

HOP_BY_HOP = {
    *("connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer"),
    *("proxy-authenticate", "proxy-authorization", "content-length", "host", "date", "server"),
}
MAX_MESSAGE_BYTES = 256 * 1024
HEARTBEAT_S = 5.0
"""A client that does not answer a ping within half of this is gone."""

Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


def wants_socket(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket"


def forwarded(request: web.Request) -> dict[str, str]:
    """The headers that go along, and who asks for which host. The guard has let the request in."""
    kept = {k: v for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP}
    kept = {k: v for k, v in kept.items() if not k.lower().startswith("sec-websocket-")}
    return kept | {"Host": request.host, "X-Forwarded-For": request[HOLDER].address}


async def pass_request(
    request: web.Request,
    http: aiohttp.ClientSession,
    address: str,
    body: bytes,
    headers: Mapping[str, str],
) -> web.Response:
    """What is answered at that address.

    Raises:
        aiohttp.ClientError, TimeoutError: nothing is.
    """
    async with http.request(
        request.method,
        address,
        headers=headers,
        data=body,
        allow_redirects=False,
        skip_auto_headers=("Content-Type",),
    ) as answer:
        response = web.Response(status=answer.status, body=await answer.read())
        for name, value in answer.headers.items():
            if name.lower() not in HOP_BY_HOP:
                response.headers.add(name, value)
        return response


async def pass_socket(
    request: web.Request,
    http: aiohttp.ClientSession,
    address: str,
    headers: Mapping[str, str],
    opened: Callable[[], None] = lambda: None,
) -> web.WebSocketResponse:
    """A WebSocket through to that address, until one end closes it.

    Args:
        opened: called once the other end has taken it.

    Raises:
        aiohttp.WSServerHandshakeError: the other end refuses it; `refused_socket` answers so.
        aiohttp.ClientError, TimeoutError: it does not answer.
    """
    async with http.ws_connect(address, headers=headers, max_msg_size=MAX_MESSAGE_BYTES) as inner:
        opened()
        outer = web.WebSocketResponse(max_msg_size=MAX_MESSAGE_BYTES, heartbeat=HEARTBEAT_S)
        await outer.prepare(request)
        ways = (
            asyncio.create_task(_pump(outer, inner)),
            asyncio.create_task(_pump(inner, outer)),
        )
        _, rest = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        left, _ = await asyncio.gather(*ways, return_exceptions=True)
        if not inner.closed:
            # A connection that was lost is no farewell, and no close code that can be sent says so.
            await inner.close(code=WSCloseCode.OK if left is True else WSCloseCode.BAD_GATEWAY)
        await outer.close(code=inner.close_code or WSCloseCode.OK)
        return outer


def refused_socket(refusal: aiohttp.WSServerHandshakeError) -> web.Response:
    """A refusal of a WebSocket. The client library drops its body."""
    reason = HTTPStatus(refusal.status).phrase
    headers: Mapping[str, str] = refusal.headers or {}
    kept = {name: headers[name] for name in ("Retry-After",) if name in headers}
    message = f"The connection was refused: {reason}."
    return error_response(refusal.status, reason.lower().replace(" ", "_"), message, kept)


async def _pump(source: Socket, sink: Socket) -> bool:
    """Until the source ends; whether it said farewell."""
    while True:
        message = await source.receive()
        match message.type:
            case WSMsgType.BINARY:
                await sink.send_bytes(message.data)
            case WSMsgType.TEXT:
                await sink.send_str(message.data)
            case WSMsgType.CLOSE:
                return True
            case WSMsgType.CLOSING | WSMsgType.CLOSED | WSMsgType.ERROR:
                return False
