"""The addresses of the protocols that callers' clients already speak."""

from __future__ import annotations

from aiohttp import web

from signaling import moshi_ws, offers, openapi, realtime, resources, smallwebrtc, whep, whip
from signaling.parts import PARTS
from signaling.sessions import SessionTable
from signaling.smallwebrtc import StartedSession


def add_protocols(app: web.Application) -> None:
    """Give the application their routes, and the tables that these keep."""
    parts = app[PARTS]
    prefix = parts.registry.prefix

    def has_call(session: StartedSession) -> bool:
        return any(call.ids.session == session.pc_id for call in parts.registry)

    app[smallwebrtc.SESSIONS] = SessionTable[StartedSession](parts.clock, prefix, has_call)
    app[whip.RESOURCES] = {}
    app[whep.LISTENERS] = {}
    add = app.router.add_route
    add("POST", "/api/offer", offers.post_offer)
    add("PATCH", "/api/offer", offers.patch_offer)
    add("POST", "/start", smallwebrtc.post_start)
    add("POST", "/sessions/{session}/api/offer", smallwebrtc.post_session_offer)
    add("PATCH", "/sessions/{session}/api/offer", smallwebrtc.patch_session_offer)
    add("POST", "/v1/realtime/calls", realtime.post_call)
    add("POST", "/v1/realtime/calls/{call_id}/hangup", realtime.post_hangup)
    add("POST", "/v1/realtime/client_secrets", realtime.post_client_secret)
    add("POST", "/v1/realtime", realtime.post_beta)
    add("POST", "/v1/realtime/sessions", realtime.post_beta_session)
    for path in ("/whip", "/whep/{call_id}"):
        add("GET", path, resources.get_endpoint)
        add("OPTIONS", path, resources.options)
    add("POST", "/whip", whip.post_whip)
    add("GET", "/whip/{session}", whip.get_whip)
    add("PATCH", "/whip/{session}", whip.patch_whip)
    add("DELETE", "/whip/{session}", whip.delete_whip)
    add("POST", "/whep/{call_id}", whep.post_whep)
    add("PATCH", "/whep/sessions/{session}", whep.patch_whep)
    add("DELETE", "/whep/sessions/{session}", whep.delete_whep)
    if parts.socket_transport is not None:
        app[moshi_ws.CALLS] = set()
        add("GET", "/api/chat", moshi_ws.chat)
    add("GET", "/openapi.json", openapi.get_openapi)
