"""Connections that say nothing, or say it byte by byte, on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from signaling import bodies
from signaling.doorkeeper import Door, GuardedSite
from signaling.errors import answer_errors

HEAD_S = 0.3


async def _slow(_: web.Request) -> web.Response:
    await asyncio.sleep(2 * HEAD_S)
    return web.Response(text="late")


async def _body(request: web.Request) -> web.Response:
    return web.Response(text=(await bodies.read_body(request)).decode())


@pytest.fixture
async def port() -> AsyncIterator[int]:
    app = web.Application(middlewares=[answer_errors])
    app.router.add_get("/", _slow)
    app.router.add_post("/", _body)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await GuardedSite(runner, "127.0.0.1", 0, head_s=HEAD_S).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection is closed."""
    async with asyncio.timeout(5):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
async def test_a_head_that_does_not_end_ends_the_connection(port: int, said: bytes) -> None:
    reader, writer = await connect(port)
    writer.write(said)
    assert await ended(reader) == b""
    writer.close()


async def test_a_head_byte_by_byte_does_not_win_time(port: int) -> None:
    reader, writer = await connect(port)

    async def drip() -> None:
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    assert b"200" not in await ended(reader)
    dripping.cancel()
    writer.close()


async def test_a_whole_head_may_be_answered_late_even_in_pieces(port: int) -> None:
    reader, writer = await connect(port)
    for piece in (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r", b"\n"):
        writer.write(piece)
        await asyncio.sleep(0.05)
    assert b"late" in await ended(reader)
    writer.close()


async def test_a_body_that_does_not_come_is_a_408(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_S", 0.2)
    reader, writer = await connect(port)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
    async with asyncio.timeout(5):
        answer = await reader.readuntil(b"}")
    assert b"408" in answer and b"request_timeout" in answer
    writer.close()


async def test_more_connections_than_there_is_room_for_are_closed() -> None:
    made: list[asyncio.Protocol] = []

    def inner() -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    door = Door(inner, head_s=5, max_connections=3)
    server = await asyncio.get_running_loop().create_server(door, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pairs = [await connect(port) for _ in range(5)]
    for reader, _ in pairs[3:]:
        assert await ended(reader) == b""
    await asyncio.sleep(0.05)
    assert door.open == 3
    for _, writer in pairs:
        writer.close()
    async with asyncio.timeout(5):
        while door.open:
            await asyncio.sleep(0.01)
    server.close()
