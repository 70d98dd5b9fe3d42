"""`/v1/phone`: the phone line over HTTP, for whoever brings its token."""

from __future__ import annotations

import hmac
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from rtc_agent.errors import Unauthorized
from rtc_agent.telephony.config import DialRule
from rtc_agent.telephony.phone_line import PhoneLine
from signaling.bodies import read_json

_LINE = web.AppKey("phone line", PhoneLine)
_TOKEN = web.AppKey("phone token", str)
_EXAMPLE = '{"uri": "sip:bob@example.org"}'


class OutgoingCall(BaseModel):
    """The body of `POST /v1/phone/calls`."""

    model_config = ConfigDict(extra="forbid")

    uri: Annotated[str, Field(max_length=300)]
    voice: Annotated[str, Field(max_length=200)] | None = None
    persona: Annotated[str, Field(max_length=100_000)] | None = None


class Transfer(BaseModel):
    """The body of `POST /v1/phone/calls/{id}/transfer`."""

    model_config = ConfigDict(extra="forbid")

    uri: Annotated[str, Field(max_length=300)]


class Keys(BaseModel):
    """The body of `POST /v1/phone/calls/{id}/keys`."""

    model_config = ConfigDict(extra="forbid")

    keys: Annotated[str, Field(pattern=r"^[0-9*#A-D]{1,32}$")]


def add_phone_routes(app: web.Application, line: PhoneLine, token: str) -> None:
    """Give an application the phone line's routes; with an empty token they refuse everybody."""
    app[_LINE] = line
    app[_TOKEN] = token
    add = app.router.add_route
    add("GET", "/v1/phone", get_line)
    add("GET", "/v1/phone/calls", get_calls)
    add("POST", "/v1/phone/calls", post_call)
    add("GET", "/v1/phone/calls/{id}", get_call)
    add("DELETE", "/v1/phone/calls/{id}", delete_call)
    add("POST", "/v1/phone/calls/{id}/hold", post_hold)
    add("POST", "/v1/phone/calls/{id}/resume", post_resume)
    add("POST", "/v1/phone/calls/{id}/transfer", post_transfer)
    add("POST", "/v1/phone/calls/{id}/keys", post_keys)


async def get_line(request: web.Request) -> web.Response:
    """Whether the line is connected and registered, and how much of it is taken."""
    status = _line(request).status()
    return web.json_response(
        {
            "ready": status.ready,
            "detail": status.detail,
            "calls": status.calls,
            "lines": status.lines,
        }
    )


async def get_calls(request: web.Request) -> web.Response:
    """Calls in progress, numbers included."""
    return web.json_response({"calls": [call.describe() for call in _line(request)]})


async def post_call(request: web.Request) -> web.Response:
    """Call somebody; answers while it rings."""
    line = _line(request)
    wanted = await read_json(request, OutgoingCall, _EXAMPLE)
    rule = DialRule(voice=wanted.voice, persona=wanted.persona)
    call = await line.dial(wanted.uri, rule)
    return web.json_response(
        call.describe(), status=201, headers={"Location": f"/v1/phone/calls/{call.id}"}
    )


async def get_call(request: web.Request) -> web.Response:
    return web.json_response(_line(request).get(request.match_info["id"]).describe())


async def delete_call(request: web.Request) -> web.Response:
    """Hang up."""
    _line(request).get(request.match_info["id"]).hang_up()
    return web.Response(status=204)


async def post_hold(request: web.Request) -> web.Response:
    await _line(request).get(request.match_info["id"]).hold()
    return web.Response(status=204)


async def post_resume(request: web.Request) -> web.Response:
    await _line(request).get(request.match_info["id"]).resume()
    return web.Response(status=204)


async def post_transfer(request: web.Request) -> web.Response:
    """Send the telephone to another address, which the settings must allow."""
    line = _line(request)
    call = line.get(request.match_info["id"])
    wanted = await read_json(request, Transfer, _EXAMPLE)
    line.check_outgoing(wanted.uri)
    await call.transfer(wanted.uri)
    return web.Response(status=202)


async def post_keys(request: web.Request) -> web.Response:
    """Press keys for the other side."""
    call = _line(request).get(request.match_info["id"])
    for key in (await read_json(request, Keys, '{"keys": "1#"}')).keys:
        await call.send_key(key)
    return web.Response(status=204)


def _line(request: web.Request) -> PhoneLine:
    """The line, for those who may use it.

    Raises:
        Unauthorized: the token is missing or wrong, or there is none that would do.
    """
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    token = request.app[_TOKEN]
    given = key.strip() if scheme.lower() == "bearer" else ""
    if not token or not hmac.compare_digest(
        given.encode("utf-8", "surrogateescape"), token.encode()
    ):
        raise Unauthorized("The phone line needs its call token as bearer (telephony.call_token).")
    return request.app[_LINE]
