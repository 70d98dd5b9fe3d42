"""Every route of the application is either open on purpose or needs a key."""

from __future__ import annotations

from typing import Any

import pytest

from signaling.app import create_app, page_files, page_folder
from signaling.parts import ServerParts
from signaling.scopes import Need, begins_a_call, need
from tests.call.fakes import call_bench

PAGE = frozenset(page_files(page_folder()))


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/", Need.NOTHING),
        ("GET", "/js/main.js", Need.NOTHING),
        ("GET", "/healthz", Need.NOTHING),
        ("POST", "/api/offer", Need.CALL_OR_ITS_ID),
        ("PATCH", "/api/offer", Need.NOTHING),
        ("POST", "/sessions/abc/api/offer", Need.NOTHING),
        ("POST", "/whip", Need.CALL),
        ("OPTIONS", "/whip", Need.CALL),
        ("DELETE", "/whip/abc", Need.NOTHING),
        ("POST", "/v1/realtime/client_secrets", Need.CALL),
        ("GET", "/api/chat", Need.CALL_OR_ITS_ID),
        ("POST", "/whep/call-1", Need.OWN),
        ("GET", "/metrics", Need.ADMIN),
        ("DELETE", "/v1/calls/call-1", Need.ADMIN),
        ("GET", "//api/offer", Need.ADMIN),
        ("GET", "/js/../metrics", Need.ADMIN),
        ("GET", "/something/new", Need.ADMIN),
    ],
)
def test_what_is_needed(method: str, path: str, wanted: Need) -> None:
    assert need(method, path, PAGE) is wanted


async def test_routes_that_nobody_thought_of_are_the_admins() -> None:
    async with call_bench() as bench:

        async def answer(*_: Any, **__: Any) -> Any:
            raise AssertionError

        app = create_app(ServerParts(bench.registry, answer, []))
    for route in app.router.routes():
        assert route.resource is not None
        path = route.resource.canonical
        filled = path.replace("{session}", "x").replace("{call_id}", "x")
        wanted = need(route.method, filled, PAGE)
        known_admin = path == "/metrics" or path.startswith("/v1/calls")
        assert (wanted is Need.ADMIN) == known_admin, (route.method, path)


def test_what_counts_against_the_limits() -> None:
    assert begins_a_call("POST", "/api/offer")
    assert begins_a_call("GET", "/api/chat")
    assert begins_a_call("POST", "/sessions/x/api/offer")
    assert not begins_a_call("PATCH", "/api/offer")
    assert not begins_a_call("GET", "/v1/info")
