"""What WHIP and WHEP share: sessions as HTTP resources, trickling into them, problem+json."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from rtc_agent.call.transport import RestartingTransport, Transport, TrickleTransport
from rtc_agent.errors import (
    CallConflict,
    InvalidRequest,
    RtcAgentError,
    Unauthorized,
    UnsupportedMediaType,
    UnsupportedOffer,
)
from rtc_agent.protocol.whip import (
    FRAGMENT,
    SDP,
    Fragment,
    check_match,
    ice_server_links,
    is_restart,
    offered_ufrag,
    parse_fragment,
    restart_credentials,
    write_fragment,
)
from signaling.bodies import read_text
from signaling.guard import HOLDER
from signaling.parts import PARTS

MAX_SDP_BYTES = 64 * 1024


@dataclass(slots=True)
class Resource:
    """What a session's URL stands for."""

    transport: Transport
    etag: str
    """Of the ICE session that there is."""
    ufrag: str | None
    """The peer's, in it."""

    @classmethod
    def of(cls, transport: Transport, offer: str, answer: str) -> Resource:
        return cls(transport, _tag(answer), offered_ufrag(offer))


def as_problem(handler: Handler) -> Handler:
    """Errors as `application/problem+json` (RFC 9457), as RFC 9725 recommends."""

    @functools.wraps(handler)
    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except RtcAgentError as error:
            headers = {}
            if error.retry_after_s is not None:
                headers[hdrs.RETRY_AFTER] = str(error.retry_after_s)
            if isinstance(error, Unauthorized):
                headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
            return web.json_response(
                {
                    "type": f"urn:rtc-agent:problem:{error.code}",
                    "title": error.code.replace("_", " ").capitalize(),
                    "status": error.http_status,
                    "detail": error.message,
                },
                status=error.http_status,
                headers=headers,
                content_type="application/problem+json",
            )

    return answer


async def get_endpoint(_: web.Request) -> web.StreamResponse:
    """Nothing to see (RFC 9725, 4.1): the endpoint is there."""
    return web.Response(status=204)


async def options(request: web.Request) -> web.StreamResponse:
    """What can be posted, and the ICE servers, for a client that asks before it offers."""
    response = web.Response(headers={"Accept-Post": SDP})
    _add_links(request, response)
    return response


async def read_offer(request: web.Request) -> str:
    """The offer in the body.

    Raises:
        UnsupportedMediaType, InvalidRequest: it is no SDP, or too long.
    """
    if request.content_type != SDP:
        raise UnsupportedMediaType(f"The offer must be {SDP}, not {request.content_type}.")
    return await read_text(request, MAX_SDP_BYTES)


def created(
    request: web.Request, location: str, resource: Resource, answer: str
) -> web.StreamResponse:
    """201 with the answer, where the session is, and how it is trickled into."""
    response = web.Response(
        status=201,
        body=answer.encode(),
        content_type=SDP,
        headers={
            hdrs.LOCATION: location,
            hdrs.ETAG: resource.etag,
            "Accept-Patch": FRAGMENT,
            hdrs.CACHE_CONTROL: "no-store",
        },
    )
    _add_links(request, response)
    return response


async def patch(
    request: web.Request,
    resource: Resource,
    conditional: bool = True,
    on_restart: Callable[[], None] = lambda: None,
) -> web.StreamResponse:
    """Trickle the fragment in the body into the session, or restart its ICE: 204, or 200 with this
    side's fragment and a new tag.

    Args:
        conditional: `If-Match` is needed, and not only heeded.
        on_restart: told when the peer is to come over another path.

    Raises:
        UnsupportedMediaType, InvalidRequest: it is no fragment.
        PreconditionRequired, PreconditionFailed: it is for another ICE session.
        UnsupportedOffer: it asks for an ICE restart, which cannot be; the session goes on.
    """
    if request.content_type != FRAGMENT:
        raise UnsupportedMediaType(f"A PATCH must be {FRAGMENT}, not {request.content_type}.")
    fragment = parse_fragment(await read_text(request, MAX_SDP_BYTES))
    if_match = request.headers.get(hdrs.IF_MATCH)
    if conditional or if_match is not None:
        check_match(if_match, resource.etag)
    response: web.StreamResponse = web.Response(status=204)
    if is_restart(fragment, resource.ufrag):
        response = await _restart(resource, fragment)
        on_restart()
    await _trickle(resource.transport, fragment)
    return response


async def _restart(resource: Resource, fragment: Fragment) -> web.StreamResponse:
    ufrag, password = restart_credentials(fragment)
    transport = resource.transport
    if not isinstance(transport, RestartingTransport):
        raise UnsupportedOffer("ICE is not restarted here; the session goes on as it was.")
    ours = await transport.restart_ice(ufrag, password)
    body = write_fragment(ours.mid, ours.ufrag, ours.password, ours.candidates)
    resource.etag, resource.ufrag = _tag(body), ufrag
    headers = {hdrs.ETAG: resource.etag, hdrs.CACHE_CONTROL: "no-store"}
    return web.Response(body=body.encode(), content_type=FRAGMENT, headers=headers)


def _tag(described: str) -> str:
    """Names an ICE session by this side's description of it, which no other has."""
    return f'"{hashlib.sha256(described.encode()).hexdigest()[:16]}"'


async def _trickle(transport: Transport, fragment: Fragment) -> None:
    if not isinstance(transport, TrickleTransport):
        raise CallConflict("This session takes no candidates.")
    for candidate in fragment.candidates:
        try:
            await transport.add_candidate(candidate.text, candidate.mid, None)
        except InvalidRequest:
            continue  # Candidates of unknown kinds are dropped in silence (RFC 9725, 4.3.2).
    if fragment.ended:
        await transport.add_candidate(None, None, None)


def _add_links(request: web.Request, response: web.StreamResponse) -> None:
    servers = [
        (url, server.username, server.credential)
        for server in request.app[PARTS].ice_for(request[HOLDER].key)
        for url in ([server.urls] if isinstance(server.urls, str) else server.urls)
    ]
    for link in ice_server_links(servers):
        response.headers.add(hdrs.LINK, link)
