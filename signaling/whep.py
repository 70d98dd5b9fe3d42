"""WHEP: a supervisor listens in on a call, caller and agent mixed.

Off unless there is a `listen_token` or a key of scope `listen`, and then for those who bring one:
whoever listens hears a private conversation.
"""

from __future__ import annotations

import hmac
import secrets

from aiohttp import web

from rtc_agent.call.call import Call
from rtc_agent.call.listener import Listener
from rtc_agent.call.state import CallState
from rtc_agent.errors import CallConflict, Unauthorized, UnknownCall
from rtc_agent.protocol.sdp import Flow
from signaling.guard import GUARD, bearer
from signaling.keyring import Scope
from signaling.parts import PARTS
from signaling.resources import Resource, as_problem, created, patch, read_offer

RETRY_AFTER_S = 2

LISTENERS = web.AppKey("WHEP sessions", dict[str, tuple[Listener, Resource]])
"""By session id. Those that are over are dropped as new ones come."""


@as_problem
async def post_whep(request: web.Request) -> web.StreamResponse:
    """An offer to listen to the call of that public id."""
    _authorize(request)
    call = _find_call(request)
    offer = await read_offer(request)
    if call.state is not CallState.LIVE:
        raise CallConflict("This call has no sound yet.", retry_after_s=RETRY_AFTER_S)
    listener = Listener()
    transport, answer = await request.app[PARTS].answer(offer, listener, flow=Flow.LISTEN)
    listener.attach(transport)
    call.add_listener(listener)
    session = f"{request.app[PARTS].registry.prefix}{secrets.token_urlsafe(16)}"
    resource = Resource.of(transport, offer, answer)
    _keep(request, session, listener, resource)
    return created(request, f"/whep/sessions/{session}", resource, answer)


@as_problem
async def patch_whep(request: web.Request) -> web.StreamResponse:
    """Trickled candidates. WHEP is a draft, and whip-whep 1.2.0 sends no `If-Match` with them."""
    _authorize(request)
    return await patch(request, _find(request)[1], conditional=False)


@as_problem
async def delete_whep(request: web.Request) -> web.StreamResponse:
    """Listen no longer; the call goes on."""
    _authorize(request)
    listener, _ = _find(request)
    del request.app[LISTENERS][request.match_info["session"]]
    await listener.aclose()
    return web.Response()


def _authorize(request: web.Request) -> None:
    token, guard = request.app[PARTS].access.listen_token, request.app[GUARD]
    if not token and not guard.keys:
        raise UnknownCall("Listening in is switched off on this server.")
    if token and hmac.compare_digest(bearer(request).encode(), token.encode()):
        return
    if not guard.keys:
        raise Unauthorized("Listening in needs the listen token as bearer.")
    guard.require(request, Scope.LISTEN)


def _find_call(request: web.Request) -> Call:
    public = request.match_info["call_id"]
    for call in request.app[PARTS].registry:
        if call.ids.public == public:
            return call
    raise UnknownCall("No call of that id is in progress.")


def _find(request: web.Request) -> tuple[Listener, Resource]:
    found = request.app[LISTENERS].get(request.match_info["session"])
    if found is None or found[0].over:
        raise UnknownCall("Nobody listens under that id.")
    return found


def _keep(request: web.Request, session: str, listener: Listener, resource: Resource) -> None:
    listeners = request.app[LISTENERS]
    for gone in [s for s, (other, _) in listeners.items() if other.over]:
        del listeners[gone]
    listeners[session] = (listener, resource)
