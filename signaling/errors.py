"""The edge where errors become HTTP answers: one JSON shape, and never a trace."""

from __future__ import annotations

import logging
import time
import weakref

from aiohttp import web
from aiohttp.typedefs import Handler

from rtc_agent.errors import RtcAgentError
from signaling.quiet_log import QuietLog

log = logging.getLogger(__name__)


def error_response(
    status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    """`{"error": {"code", "message"}}`."""
    return web.json_response(
        {"error": {"code": code, "message": message}}, status=status, headers=headers
    )


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every exception of a handler into an answer a caller can act on."""
    try:
        return await handler(request)
    except RtcAgentError as error:
        headers = {}
        if error.retry_after_s is not None:
            headers["Retry-After"] = str(error.retry_after_s)
        if error.http_status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if error.http_status >= 500:
            words = f"{request.method} {_route(request)} refused: {error.message}"
            _quiet(request.app).warning(error.code, words)
        return error_response(error.http_status, error.code, error.message, headers)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        headers = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
        code = (error.reason or "error").lower().replace(" ", "_")
        return error_response(error.status, code, _plain(request, error), headers)
    except web.RequestPayloadError:
        return error_response(
            400, "invalid_request", "The request body cannot be read as its headers describe it."
        )
    except Exception:
        log.exception("%s %s failed", request.method, _route(request))
        return error_response(
            500, "internal_error", "The server failed on this request; its log says more."
        )


_logs: weakref.WeakKeyDictionary[web.Application, QuietLog] = weakref.WeakKeyDictionary()


def _quiet(app: web.Application) -> QuietLog:
    found = _logs.get(app)
    if found is None:
        found = _logs[app] = QuietLog(log, time.monotonic)
    return found


def _route(request: web.Request) -> str:
    """The address without what a client wrote into it: an id there opens a session."""
    resource = request.match_info.route.resource
    return "(unknown)" if resource is None else resource.canonical


def _plain(request: web.Request, error: web.HTTPException) -> str:
    match error.status:
        case 404:
            return f"There is nothing at {request.path}."
        case 405:
            allowed = error.headers.get("Allow", "")
            return f"{request.method} is not possible at {request.path}; possible: {allowed}."
        case 413:
            return f"The body is too large; at most {request._client_max_size} bytes are read."
        case _:
            return error.text or error.reason
