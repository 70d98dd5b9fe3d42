"""The SmallWebRTC runner's addresses: `POST /start`, then offers under the session's own URL."""

from __future__ import annotations

from typing import Annotated, Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rtc_agent.errors import InvalidRequest, RtcAgentError, UnknownCall
from signaling.bodies import explain, read_json
from signaling.guard import HOLDER
from signaling.offers import (
    OFFER_EXAMPLE,
    Offer,
    RequestData,
    answer_offer,
    choices_only_in,
    patch_offer,
)
from signaling.parts import PARTS
from signaling.sessions import SessionTable

START_TTL_S = 300.0
"""How long after `/start` the offer may come."""


class Start(BaseModel):
    """The body of `POST /start`; all of it may be left out."""

    model_config = ConfigDict(populate_by_name=True)

    transport: str = "webrtc"
    enable_default_ice_servers: Annotated[bool, Field(alias="enableDefaultIceServers")] = False
    """Let go: whose ICE servers are used is for this server's settings to say."""
    body: dict[str, Any] | None = None
    """What the agent is to be, as in an offer's `request_data`."""

    _choices = choices_only_in("body")


class StartedSession:
    """A session that was started and may have become a call."""

    def __init__(self, data: RequestData) -> None:
        self.data = data
        self.pc_id: str | None = None


SESSIONS = web.AppKey("started sessions", SessionTable[StartedSession])


async def post_start(request: web.Request) -> web.Response:
    """Promise a session. A refusal says why under `info` too, where clients look."""
    try:
        data = await _read_start(request)
    except RtcAgentError as error:
        told = {"error": {"code": error.code, "message": error.message}, "info": error.message}
        return web.json_response(told, status=error.http_status)
    session_id = request.app[SESSIONS].add(StartedSession(data), START_TTL_S)
    answer: dict[str, Any] = {"sessionId": session_id}
    if servers := request.app[PARTS].ice_for(request[HOLDER].key):
        described = [server.model_dump(exclude_none=True) for server in servers]
        answer["iceConfig"] = {"iceServers": described}
    return web.json_response(answer, headers={"Cache-Control": "no-store"})


async def post_session_offer(request: web.Request) -> web.Response:
    """An offer of a started session; what `/start` was told counts unless the offer says it."""
    session = _find(request)
    offer = await read_json(request, Offer, OFFER_EXAMPLE)
    if offer.request_data is None:
        offer.request_data = session.data
    call, response = await answer_offer(request, offer)
    session.pc_id = call.ids.session
    return response


async def patch_session_offer(request: web.Request) -> web.Response:
    """Candidates of a started session's call."""
    _find(request)
    return await patch_offer(request)


async def _read_start(request: web.Request) -> RequestData:
    """What the session is to be.

    Raises:
        InvalidRequest, UnknownVoice, InvalidPersona: it cannot be so.
    """
    start = await read_json(request, Start) if request.can_read_body else Start()
    if start.transport != "webrtc":
        raise InvalidRequest(f'The transport {start.transport[:64]!r} is not "webrtc".')
    try:
        data = RequestData.model_validate(start.body or {})
    except ValidationError as error:
        raise InvalidRequest(f"`body` does not fit: {explain(error)}.") from error
    request.app[PARTS].registry.engine.check(data.spec())
    return data


def _find(request: web.Request) -> StartedSession:
    session = request.app[SESSIONS].get(request.match_info["session"])
    if session is None:
        raise UnknownCall("No session of that id was started, or its time has passed.")
    return session
