"""The aiohttp application: routes, the page, and the headers every answer carries."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

from signaling import status
from signaling.errors import answer_errors
from signaling.origins import add_cross_origin_headers, cross_origin
from signaling.parts import PARTS, ServerParts
from signaling.routes import add_protocols

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
    app = web.Application(
        middlewares=[answer_errors, cross_origin(parts.access.allowed_origins)],
        client_max_size=MAX_BODY_BYTES,
    )
    app[PARTS] = parts
    app.router.add_get("/healthz", status.healthz)
    app.router.add_get("/readyz", status.readyz)
    app.router.add_get("/v1/info", status.info)
    add_protocols(app)
    _add_page(app, page_folder())
    app.on_response_prepare.append(_add_headers)
    app.on_response_prepare.append(add_cross_origin_headers)
    return app


def page_folder() -> Path:
    """Where the call page's files lie: beside this package once installed, else in the checkout."""
    here = Path(__file__).parent
    installed = here / "web"
    return installed if installed.is_dir() else here.parent / "web"


def _add_page(app: web.Application, folder: Path) -> None:
    """A route for each file that is there: nothing outside the folder can be asked for."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            address = f"/{path.relative_to(folder).as_posix()}"
            app.router.add_get("/" if address == "/index.html" else address, _file(path))


def _file(path: Path) -> Handler:
    async def serve(_: web.Request) -> web.StreamResponse:
        return web.FileResponse(path)

    return serve


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-cache")
