"""The served document against the routes that there are."""

from __future__ import annotations

from signaling.app import page_files, page_folder
from signaling.openapi import document
from signaling.scopes import HOLDERS
from tests.signaling.site import StartClient, serving

METHODS = ("GET", "POST", "PATCH", "DELETE", "OPTIONS")


async def test_every_route_but_the_pages_files_is_described_and_no_other(
    aiohttp_client: StartClient,
) -> None:
    async with serving(aiohttp_client) as it:
        there = {
            (route.method, route.resource.canonical)
            for route in it.client.app.router.routes()
            if route.method in METHODS and route.resource is not None
        }
        files = set(page_files(page_folder())) | {HOLDERS}
        there = {(method, path) for method, path in there if path not in files}
        described = {
            (method.upper(), path)
            for path, operations in document()["paths"].items()
            for method in operations
            if method != "parameters"
        }
        assert there == described
        served = await (await it.client.get("/openapi.json")).json()
        assert served == document()


def test_operations_are_told_apart() -> None:
    names = [
        operation["operationId"]
        for operations in document()["paths"].values()
        for method, operation in operations.items()
        if method != "parameters"
    ]
    assert len(set(names)) == len(names)
