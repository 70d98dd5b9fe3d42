"""Pages of other origins: which may use this server, and what their browsers are told (CORS)."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from rtc_agent.errors import OriginNotAllowed

METHODS = "GET, POST, PATCH, DELETE, OPTIONS"
EXPOSED = "Location, ETag, Link, Accept-Patch, Accept-Post, Retry-After"
"""Headers that a page's script may read; all that our protocols put anything in."""
PREFLIGHT_AGE_S = 600
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def cross_origin(allowed: Sequence[str]) -> Middleware:
    """A middleware that lets pages of these origins in and keeps those of others out.

    Without it any page that a person has open could place calls on a server that only this person
    can reach. Clients that are no browser send no `Origin` and are not concerned.

    Args:
        allowed: origins such as `https://app.example`; `*` is every one.
    """
    origins = frozenset(origin.rstrip("/").lower() for origin in allowed)

    def lets_in(origin: str) -> bool:
        return "*" in origins or origin.lower() in origins

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is None or is_same_origin(request, origin):
            return await handler(request)
        if not lets_in(origin):
            if request.method in _SAFE and not _is_websocket(request):
                return await handler(request)
            raise OriginNotAllowed(
                "Pages of this origin may not use this server; the setting `allowed_origins` says "
                "which may."
            )
        if hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers:
            return _preflight(request, origin)
        request[_LET_IN] = origin
        return await handler(request)

    return middleware


def is_same_origin(request: web.Request, origin: str) -> bool:
    """Whether the page came from this server, by what a page cannot forge."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in ("same-origin", "none")
    host = request.headers.get("X-Forwarded-Host", request.host).split(",")[-1].strip()
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


async def add_cross_origin_headers(request: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare`: errors carry the headers too, or a page could not read them."""
    response.headers.add(hdrs.VARY, hdrs.ORIGIN)
    origin = request.get(_LET_IN)
    if origin is not None:
        response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
        response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = EXPOSED


_LET_IN = web.RequestKey("cross origin", str)


def _is_websocket(request: web.Request) -> bool:
    return request.headers.get(hdrs.UPGRADE, "").lower() == "websocket"


def _preflight(request: web.Request, origin: str) -> web.Response:
    asked = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS, "")
    headers = {
        hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: origin,
        hdrs.ACCESS_CONTROL_ALLOW_METHODS: METHODS,
        hdrs.ACCESS_CONTROL_MAX_AGE: str(PREFLIGHT_AGE_S),
    }
    if asked:
        headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = asked
    return web.Response(status=204, headers=headers)
