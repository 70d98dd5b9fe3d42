"""OpenAI Realtime over WebRTC: offers as SDP or multipart, client secrets, hanging up."""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler
from pydantic import BaseModel, Field

from rtc_agent.call.state import EndReason
from rtc_agent.engine.stepper import SessionSpec
from rtc_agent.errors import InvalidRequest, RtcAgentError, UnsupportedMediaType
from rtc_agent.protocol.realtime.dialect import LABEL, RealtimeDialect
from rtc_agent.protocol.realtime.session import Session, Wishes, read_wishes
from rtc_agent.protocol.whip import SDP
from signaling.bodies import read_in_time, read_json, read_text
from signaling.client_secrets import PREFIX
from signaling.guard import GUARD, HOLDER, bearer
from signaling.parts import PARTS

MAX_SDP_BYTES = 64 * 1024


class ExpiresAfter(BaseModel):
    """When a client secret expires."""

    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Field(ge=10, le=7200)] = 600


class ClientSecretRequest(BaseModel):
    """The body of `POST /v1/realtime/client_secrets`."""

    expires_after: ExpiresAfter = ExpiresAfter()
    session: dict[str, Any] = {}


def in_their_shape(handler: Handler) -> Handler:
    """Errors as Realtime clients read them: `error.type`, `code`, `message` and `param`."""

    @functools.wraps(handler)
    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except RtcAgentError as error:
            kind = "server_error" if error.http_status >= 500 else "invalid_request_error"
            body = {"type": kind, "code": error.code, "message": error.message, "param": None}
            headers = {}
            if error.retry_after_s is not None:
                headers[hdrs.RETRY_AFTER] = str(error.retry_after_s)
            return web.json_response({"error": body}, status=error.http_status, headers=headers)

    return answer


@in_their_shape
async def post_call(request: web.Request) -> web.StreamResponse:
    """`POST /v1/realtime/calls`: the current form."""
    return await _place(request, beta=request.headers.get("OpenAI-Beta") == "realtime=v1")


@in_their_shape
async def post_beta(request: web.Request) -> web.StreamResponse:
    """`POST /v1/realtime`: the older form, with the older event names."""
    return await _place(request, beta=True)


@in_their_shape
async def post_client_secret(request: web.Request) -> web.StreamResponse:
    """A key for a browser, which knows the session that it is for."""
    wanted = await read_json(request, ClientSecretRequest)
    value, expires_at = _make_secret(request, wanted.session, wanted.expires_after.seconds)
    session = _session(request, read_wishes(wanted.session), beta=False).describe()
    body = {"value": value, "expires_at": expires_at, "session": session}
    return web.json_response(body, headers={hdrs.CACHE_CONTROL: "no-store"})


@in_their_shape
async def post_beta_session(request: web.Request) -> web.StreamResponse:
    """The same in its older form: the body is the session itself."""
    wanted = await read_json(request, dict[str, Any])
    value, expires_at = _make_secret(request, wanted, ExpiresAfter().seconds)
    session = _session(request, read_wishes(wanted), beta=True).describe()
    body = session | {"client_secret": {"value": value, "expires_at": expires_at}}
    return web.json_response(body, headers={hdrs.CACHE_CONTROL: "no-store"})


@in_their_shape
async def post_hangup(request: web.Request) -> web.StreamResponse:
    """`POST /v1/realtime/calls/{call_id}/hangup`."""
    request.app[PARTS].registry.get(request.match_info["call_id"]).end(EndReason.HANGUP)
    return web.Response()


async def _place(request: web.Request, beta: bool) -> web.StreamResponse:
    sdp, asked = await _read_offer(request)
    wanted = _secret_session(request) | asked
    if model := request.query.get("model"):
        wanted.setdefault("model", model)
    wishes = read_wishes(wanted)
    parts = request.app[PARTS]
    session = _session(request, wishes, beta)
    call, answer = await parts.registry.place(
        SessionSpec(voice=wishes.voice, persona=wishes.instructions or None),
        lambda events: parts.answer(sdp, events),
        dialects={LABEL: lambda: RealtimeDialect(session)},
    )
    location = f"/v1/realtime/calls/{call.ids.session}"
    return web.Response(
        status=201,
        body=answer.encode(),
        content_type=SDP,
        headers={hdrs.LOCATION: location, hdrs.CACHE_CONTROL: "no-store"},
    )


async def _read_offer(request: web.Request) -> tuple[str, dict[str, Any]]:
    """The offer, and the session sent along with it."""
    match request.content_type:
        case "application/sdp":
            return await read_text(request, MAX_SDP_BYTES), {}
        case "multipart/form-data":
            return await _read_form(request)
    raise UnsupportedMediaType("Send the offer as application/sdp or multipart/form-data.")


async def _read_form(request: web.Request) -> tuple[str, dict[str, Any]]:
    try:
        form = await read_in_time(request.post())
        fields = {name: _field(form.get(name)) for name in ("sdp", "session")}
    except (ValueError, AssertionError, LookupError, RuntimeError, HttpProcessingError) as error:
        # aiohttp answers a malformed part with whichever of these comes first.
        raise InvalidRequest("The multipart body cannot be read.") from error
    if not fields["sdp"]:
        raise InvalidRequest("The multipart body has no field `sdp`.")
    try:
        session = json.loads(fields["session"] or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("The field `session` is not JSON.") from error
    if not isinstance(session, dict):
        raise InvalidRequest("The field `session` is not a JSON object.")
    return fields["sdp"], session


def _field(value: object) -> str:
    """A form field's text, in whichever of its ways aiohttp has read it."""
    if isinstance(value, web.FileField):
        value = value.file.read()
    if isinstance(value, (bytes, bytearray)):
        return value.decode()
    return value if isinstance(value, str) else ""


def _secret_session(request: web.Request) -> dict[str, Any]:
    """The session that the bearer's client secret was made for; other keys carry none."""
    key = bearer(request)
    return dict(request.app[GUARD].secrets.read(key).session) if key.startswith(PREFIX) else {}


def _make_secret(request: web.Request, session: Mapping[str, Any], seconds: int) -> tuple[str, int]:
    wishes = read_wishes(session)
    request.app[PARTS].registry.engine.check(
        SessionSpec(voice=wishes.voice, persona=wishes.instructions or None)
    )
    return request.app[GUARD].secrets.make(request[HOLDER].key, seconds, session)


def _session(request: web.Request, wishes: Wishes, beta: bool) -> Session:
    info = request.app[PARTS].registry.engine.info
    return Session(
        id=f"sess_{secrets.token_hex(8)}",
        model=wishes.model or info.agent,
        beta=beta,
        instructions=wishes.instructions,
        voice=wishes.voice or info.default_voice,
    )
