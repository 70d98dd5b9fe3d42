"""`GET /openapi.json`: the routes as an OpenAPI 3.1 document, for tools and fuzzers."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from pydantic import BaseModel

from rtc_agent import __version__
from rtc_agent.protocol.whip import FRAGMENT, SDP
from signaling.moshi_ws import ChatQuery
from signaling.offers import Candidates, Offer
from signaling.realtime import ClientSecretRequest
from signaling.smallwebrtc import Start

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": _TEXT, "message": _TEXT},
        }
    },
}
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
    },
}
_SOUND = {"200": {"description": "a few seconds of it", "content": {"audio/wav": {}}}}
_REFUSALS = {
    400: "what was sent cannot be understood",
    401: "a key is needed, or the one given does not do",
    403: "a page of an origin that is not let in",
    404: "no call or session of that id",
    409: "the call is in a state that forbids it",
    412: "meant for another ICE session",
    413: "the body is too large",
    415: "a body of another kind is expected",
    422: "an offer that nothing can be answered to",
    428: "`If-Match` is needed",
    429: "too many requests or calls; `Retry-After` says when to come back",
    503: "full, stopping or failed; `Retry-After` says when to come back",
}


async def get_openapi(_: web.Request) -> web.Response:
    """The document."""
    return web.json_response(document())


def document() -> Json:
    """All routes but the page's files."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "rtc-agent", "version": __version__},
        "paths": {
            "/healthz": {"get": _get("The process answers", "liveness")},
            "/readyz": {"get": _get("Calls can be taken", "readiness", refusals=(503,))},
            "/v1/info": {"get": _get("Agent, voices, slots, ICE servers", "info")},
            "/v1/voices/{voice}/sample": {
                "parameters": [_path("voice")],
                "get": _operation(
                    "A short listen to a voice", "voiceSample", None, _SOUND, (401, 404)
                ),
            },
            "/openapi.json": {"get": _get("This document", "openapi")},
            **_operators(),
            **_smallwebrtc(),
            **_realtime(),
            **_whip(),
            "/api/chat": {
                "get": {
                    "operationId": "moshi",
                    "summary": "A call over a WebSocket, as Moshi clients speak it",
                    "parameters": _query(ChatQuery),
                    "responses": {"101": {"description": "the WebSocket"}}
                    | _refused(400, 404, 409, 503),
                }
            },
        },
    }


def _operators() -> Json:
    metrics = {"200": {"description": "Prometheus's text format", "content": {"text/plain": {}}}}
    ended = {"204": {"description": "ended"}}
    return {
        "/metrics": {"get": _operation("Figures for Prometheus", "metrics", None, metrics, (401,))},
        "/v1/calls": {
            "get": _operation(
                "Calls in progress", "calls", None, _gives({"type": "object"}), (401,)
            )
        },
        "/v1/calls/{call_id}": {
            "parameters": [_path("call_id")],
            "get": _operation("One call", "call", None, _gives({"type": "object"}), (401, 404)),
            "delete": _operation("End a call", "endCall", None, ended, (401, 404)),
        },
    }


def _smallwebrtc() -> Json:
    answer = {
        "type": "object",
        "required": ["sdp", "type", "pc_id"],
        "properties": {"sdp": _TEXT, "type": {"const": "answer"}, "pc_id": _TEXT},
    }
    status = {"type": "object", "properties": {"status": {"const": "success"}}}
    started = {"type": "object", "required": ["sessionId"], "properties": {"sessionId": _TEXT}}
    refusals = (400, 404, 409, 413, 422, 503)

    def offer(name: str) -> Json:
        return _operation(
            "Offer a call, move it or offer it anew", name, _json(Offer), _gives(answer), refusals
        )

    def trickle(name: str) -> Json:
        return _operation(
            "Add ICE candidates", name, _json(Candidates), _gives(status), (400, 404, 409, 413)
        )

    start = _operation(
        "Start a session", "start", _json(Start, required=False), _gives(started), (400, 413)
    )
    return {
        "/api/offer": {"post": offer("offer"), "patch": trickle("trickle")},
        "/start": {"post": start},
        "/sessions/{session}/api/offer": {
            "parameters": [_path("session")],
            "post": offer("sessionOffer"),
            "patch": trickle("sessionTrickle"),
        },
    }


def _realtime() -> Json:
    form = {"type": "object", "required": ["sdp"], "properties": {"sdp": _TEXT, "session": _TEXT}}
    content = {SDP: {"schema": _TEXT}, "multipart/form-data": {"schema": form}}
    body = {"required": True, "content": content}
    created = {"201": {"description": "the answer", "content": {SDP: {"schema": _TEXT}}}}
    any_object: Json = {"type": "object"}
    refusals = (400, 401, 413, 415, 422, 503)
    session_body = {"required": True, "content": {"application/json": {"schema": any_object}}}
    model = [{"name": "model", "in": "query", "schema": _TEXT}]
    beta = _operation("The beta's form of it", "realtimeBeta", body, created, refusals)
    return {
        "/v1/realtime/calls": {
            "post": _operation("Offer a Realtime call", "realtimeCall", body, created, refusals)
        },
        "/v1/realtime": {"post": beta | {"parameters": model}},
        "/v1/realtime/calls/{call_id}/hangup": {
            "parameters": [_path("call_id")],
            "post": _operation(
                "Hang up", "realtimeHangup", None, {"200": {"description": "ended"}}, (404,)
            ),
        },
        "/v1/realtime/client_secrets": {
            "post": _operation(
                "Make a client secret",
                "clientSecret",
                _json(ClientSecretRequest),
                _gives(any_object),
                (400, 413),
            )
        },
        "/v1/realtime/sessions": {
            "post": _operation(
                "The beta's form of it", "betaSession", session_body, _gives(any_object), (400, 413)
            )
        },
    }


def _whip() -> Json:
    offer = {"required": True, "content": {SDP: {"schema": _TEXT}}}
    fragment = {"required": True, "content": {FRAGMENT: {"schema": _TEXT}}}
    created = {"201": {"description": "the answer", "content": {SDP: {"schema": _TEXT}}}}
    done = {"200": {"description": "ended"}}
    nothing = {"204": {"description": "it is there"}}
    trickled = {
        "200": {
            "description": "ICE was restarted; this side of it",
            "content": {FRAGMENT: {"schema": _TEXT}},
        },
        "204": {"description": "taken"},
    }
    match = {
        "name": "If-Match",
        "in": "header",
        "schema": {"type": "string", "pattern": "^[!-~]*$"},
    }
    names = [{"name": name, "in": "query", "schema": _TEXT} for name in ("voice", "persona")]

    def whip(
        summary: str, name: str, body: Json | None, success: Json, refusals: tuple[int, ...]
    ) -> Json:
        return _operation(summary, name, body, success, refusals, problem=True)

    def session(name: str, extra: tuple[int, ...]) -> Json:
        refusals = (400, 404, 409, 412, 413, 415, 422, 428, *extra)
        return {
            "parameters": [_path("session")],
            "patch": whip("Trickle, or restart ICE", f"{name}Trickle", fragment, trickled, refusals)
            | {"parameters": [match]},
            "delete": whip("End it", f"{name}End", None, done, (404, *extra)),
        }

    options = whip("What can be posted", "whipOptions", None, done, ())
    listen = (400, 401, 404, 409, 413, 415, 422, 503)
    return {
        "/whip": {
            "get": whip("The endpoint is there", "whipEndpoint", None, nothing, ()),
            "options": options,
            "post": whip("Offer a call", "whip", offer, created, (400, 413, 415, 422, 503))
            | {"parameters": names},
        },
        "/whip/{session}": session("whip", ())
        | {"get": whip("The session is there", "whipSession", None, nothing, (404,))},
        "/whep/{call_id}": {
            "parameters": [_path("call_id")],
            "get": whip("The endpoint is there", "whepEndpoint", None, nothing, ()),
            "options": options | {"operationId": "whepOptions"},
            "post": whip("Listen in on a call", "whep", offer, created, listen),
        },
        "/whep/sessions/{session}": session("whep", (401,)),
    }


def _operation(
    summary: str,
    name: str,
    body: Json | None,
    success: Json,
    refusals: tuple[int, ...],
    problem: bool = False,
) -> Json:
    described: Json = {"operationId": name, "summary": summary}
    if body is not None:
        described["requestBody"] = body
    return described | {
        "responses": success | _refused(*{401, 403, 429, *refusals}, problem=problem)
    }


def _get(summary: str, name: str, refusals: tuple[int, ...] = ()) -> Json:
    responses = _gives({"type": "object"})
    for status in refusals:
        responses[str(status)] = {"description": _REFUSALS[status]}
    return {"operationId": name, "summary": summary, "responses": responses}


def _gives(schema: Json) -> Json:
    return {"200": {"description": "done", "content": {"application/json": {"schema": schema}}}}


def _refused(*statuses: int, problem: bool = False) -> Json:
    """Refusals before the protocol's own handler are in the common shape."""
    content: Json = {"application/json": {"schema": _ERROR}}
    if problem:
        content["application/problem+json"] = {"schema": _PROBLEM}
    return {str(s): {"description": _REFUSALS[s], "content": content} for s in sorted(statuses)}


def _json(model: type[BaseModel], required: bool = True) -> Json:
    schema = model.model_json_schema(ref_template="#/{model}")
    return {
        "required": required,
        "content": {"application/json": {"schema": _inline(schema, schema.pop("$defs", {}))}},
    }


def _inline(schema: Any, definitions: Json) -> Any:
    """The schema without references: none of ours refers to itself."""
    if isinstance(schema, list):
        return [_inline(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline(definitions[schema["$ref"].removeprefix("#/")], definitions)
    return {key: _inline(value, definitions) for key, value in schema.items()}


def _query(model: type[BaseModel]) -> list[Json]:
    properties = _inline(model.model_json_schema(), {})["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]


def _path(name: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
    }
