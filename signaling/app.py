"""The aiohttp application: routes, the page, and the headers every answer carries."""

from __future__ import annotations

import secrets
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

from signaling import calls, status
from signaling.client_secrets import ClientSecrets
from signaling.errors import answer_errors
from signaling.guard import GUARD, Guard, guarded
from signaling.metrics import METRICS, get_metrics
from signaling.origins import add_cross_origin_headers, cross_origin
from signaling.parts import PARTS, ServerParts
from signaling.routes import add_protocols
from signaling.scopes import HOLDERS

MAX_ADDRESS_BYTES = 48 * 1024
"""Of a request's first line: Moshi clients write the whole persona into the address."""
MAX_BODY_BYTES = 256 * 1024
"""More than any session description; browsers' are under 10 KiB."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; media-src 'self' blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Permissions-Policy": "microphone=(self), camera=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def create_app(parts: ServerParts) -> web.Application:
    """The application for these parts; it owns none of them."""
    guard = make_guard(parts)
    app = web.Application(
        middlewares=[answer_errors, cross_origin(parts.access.allowed_origins), guarded(guard)],
        client_max_size=MAX_BODY_BYTES,
    )
    app[PARTS] = parts
    app[GUARD] = guard
    app[METRICS] = parts.metrics
    parts.metrics.watch(parts.registry, parts.why_not_ready, parts.relays)
    guard.refused = parts.metrics.on_refused
    app.router.add_get("/healthz", status.healthz)
    app.router.add_get("/readyz", status.readyz)
    app.router.add_get("/v1/info", status.info)
    app.router.add_get("/v1/voices/{voice}/sample", status.voice_sample)
    app.router.add_get("/metrics", get_metrics)
    app.router.add_get("/v1/calls", calls.get_calls)
    app.router.add_get("/v1/calls/{call_id}", calls.get_call)
    app.router.add_delete("/v1/calls/{call_id}", calls.delete_call)
    if parts.registry.prefix:
        app.router.add_get(HOLDERS, status.holders)
    add_protocols(app)
    for address, path in page_files(page_folder()).items():
        app.router.add_get(address, _file(path))
    app.on_response_prepare.append(_add_headers)
    app.on_response_prepare.append(add_cross_origin_headers)
    return app


def page_folder() -> Path:
    """Where the call page's files lie: beside this package once installed, else in the checkout."""
    here = Path(__file__).parent
    installed = here / "web"
    return installed if installed.is_dir() else here.parent / "web"


def make_guard(parts: ServerParts) -> Guard:
    """Who is let in, by the access that the parts allow and the calls that there are."""
    registry, access = parts.registry, parts.access
    return Guard(
        access.rules,
        ClientSecrets(access.token_secret or secrets.token_bytes(32), access.wall),
        parts.clock,
        page_files(page_folder()),
        holders=lambda: [call.holder for call in registry],
        has_call=lambda session: any(call.ids.session == session for call in registry),
    )


def page_files(folder: Path) -> dict[str, Path]:
    """Address → file, for each that is there: nothing outside the folder can be asked for."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            address = f"/{path.relative_to(folder).as_posix()}"
            found["/" if address == "/index.html" else address] = path
    return found


def _file(path: Path) -> Handler:
    async def serve(_: web.Request) -> web.StreamResponse:
        return web.FileResponse(path)

    return serve


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-cache")
