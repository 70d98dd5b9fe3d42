"""WHIP (RFC 9725): one POST makes the call, one DELETE ends it.

The RFC is for sending only, and an offer to send only is answered so. A conversation needs both
directions: an offer to send and receive gets both, unless `whip_strict` is set.
"""

from __future__ import annotations

from aiohttp import web

from rtc_agent.call.state import EndReason
from rtc_agent.engine.stepper import SessionSpec
from rtc_agent.errors import InvalidRequest, UnknownCall
from rtc_agent.protocol.sdp import Flow
from signaling.parts import PARTS
from signaling.resources import Resource, as_problem, created, patch, read_offer

MAX_PARAMETER_CHARS = 4_000

RESOURCES = web.AppKey("WHIP sessions", dict[str, Resource])
"""By session id. Those whose call is over are dropped as new ones come."""


@as_problem
async def post_whip(request: web.Request) -> web.StreamResponse:
    """An offer; the call begins. Voice and persona come as query parameters."""
    offer = await read_offer(request)
    spec = SessionSpec(voice=_parameter(request, "voice"), persona=_parameter(request, "persona"))
    parts = request.app[PARTS]
    flow = Flow.INGEST if parts.access.whip_strict else Flow.CALL_OR_INGEST
    call, answer = await parts.registry.place(
        spec, lambda events: parts.answer(offer, events, flow=flow), may_return=True
    )
    assert call.transport is not None
    resource = Resource.of(call.transport, offer, answer)
    _keep(request, call.ids.session, resource)
    return created(request, f"/whip/{call.ids.session}", resource, answer)


@as_problem
async def get_whip(request: web.Request) -> web.StreamResponse:
    """Whether the session is there; it has no content (RFC 9725, 4.2)."""
    _find(request)
    return web.Response(status=204)


@as_problem
async def patch_whip(request: web.Request) -> web.StreamResponse:
    """Trickled candidates, or an ICE restart: the way back of a caller whose path was lost."""
    resource = _find(request)
    call = request.app[PARTS].registry.get(request.match_info["session"])
    return await patch(request, resource, on_restart=call.expect)


@as_problem
async def delete_whip(request: web.Request) -> web.StreamResponse:
    """The end of the call, whatever `If-Match` says (RFC 9725, 4.2)."""
    _find(request)
    session = request.match_info["session"]
    request.app[PARTS].registry.get(session).end(EndReason.HANGUP)
    del request.app[RESOURCES][session]
    return web.Response()


def _find(request: web.Request) -> Resource:
    session = request.match_info["session"]
    request.app[PARTS].registry.get(session)
    resource = request.app[RESOURCES].get(session)
    if resource is None:
        raise UnknownCall("No WHIP session of that id is in progress.")
    return resource


def _keep(request: web.Request, session: str, resource: Resource) -> None:
    resources = request.app[RESOURCES]
    in_progress = {call.ids.session for call in request.app[PARTS].registry}
    for gone in resources.keys() - in_progress:
        del resources[gone]
    resources[session] = resource


def _parameter(request: web.Request, name: str) -> str | None:
    value = request.query.get(name)
    if value is not None and len(value) > MAX_PARAMETER_CHARS:
        raise InvalidRequest(f"`{name}` is longer than {MAX_PARAMETER_CHARS} characters.")
    return value or None
