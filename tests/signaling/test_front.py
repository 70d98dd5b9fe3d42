"""The front on real local sockets: where requests go, and what callers see when workers fail."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient

from signaling import front
from signaling.front import Front
from signaling.guard import GuardRules
from signaling.parts import Access

Client = TestClient[web.Request, web.Application]
StartClient = Callable[[web.Application], Awaitable[Client]]


class FakeWorker:
    """A worker's application: tells what it was asked, and can be taken down and hang."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.calls = 0
        self.hangs = False
        self.dies = False
        self.requests: list[str] = []
        self.headers: dict[str, str] = {}
        self.close_codes: list[int | None] = []
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/ws", self._socket)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.path)).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "calls": self.calls})

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests.append(f"{request.method} {request.path_qs}")
        self.headers = dict(request.headers)
        if self.dies:
            assert request.transport is not None
            request.transport.abort()
        if self.hangs:
            await asyncio.sleep(600)
        body = (await request.read()).decode(errors="replace")
        return web.json_response(
            {"worker": self.name, "body": body},
            status=503 if "full" in body else 201,
            headers={"Retry-After": "5", "Location": f"/whip/{self.name}-abc"},
        )

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if "refuse" in request.query:
            raise web.HTTPServiceUnavailable(headers={"Retry-After": "5"})
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        async for message in ws:
            if message.data == "bye":
                await ws.close(code=4321)
            elif message.type is aiohttp.WSMsgType.BINARY:
                await ws.send_bytes(message.data * 2)
            else:
                await ws.send_str(f"{self.name}: {message.data}")
        self.close_codes.append(ws.close_code)
        return ws


class Bench:
    def __init__(self, client: Client, front: Front, workers: list[FakeWorker]) -> None:
        self.client = client
        self.front = front
        self.workers = workers

    async def post(self, body: Any = None, path: str = "/api/offer") -> tuple[int, dict[str, Any]]:
        async with self.client.post(path, json=body) as response:
            return response.status, await response.json()

    async def where(self, body: Any = None, path: str = "/api/offer") -> str:
        """Which worker answered."""
        _, answer = await self.post(body, path)
        return str(answer["worker"])


@pytest.fixture
async def bench(tmp_path: Path, aiohttp_client: StartClient) -> AsyncIterator[Bench]:
    workers = [FakeWorker(name, tmp_path / f"{name}.sock") for name in ("w0", "w1", "w12")]
    for worker in workers:
        await worker.start()
    access = Access(rules=GuardRules(hosts=("agent.example",)))
    made = Front({worker.name: worker.path for worker in workers}, access)
    async with contextlib.AsyncExitStack() as stack:
        for worker in workers:
            stack.push_async_callback(worker.stop)
        client = await aiohttp_client(made.app())
        stack.push_async_callback(client.close)
        yield Bench(client, made, workers)


async def test_new_calls_are_spread(bench: Bench) -> None:
    assert (
        sorted([await bench.where({}) for _ in range(6)]) == ["w0", "w0", "w1", "w1"] + ["w12"] * 2
    )


async def test_a_new_call_goes_where_the_fewest_are(bench: Bench) -> None:
    bench.workers[0].calls = bench.workers[2].calls = 3
    await bench.front.look()
    assert [await bench.where({}) for _ in range(3)] == ["w1"] * 3


@pytest.mark.parametrize(
    ("path", "body", "worker"),
    [
        ("/api/offer", {"pc_id": "w1-secret"}, "w1"),
        ("/api/offer", {"pc_id": "w12-secret"}, "w12"),
        ("/whip/w12-a_b-C", None, "w12"),
        ("/sessions/w1-abc/api/offer", {}, "w1"),
        ("/listen/call-w1-0011aabb", None, "w1"),
        ("/v1/x?call_id=call-w12-0011aabb", None, "w12"),
    ],
)
async def test_what_belongs_to_a_call_goes_to_the_worker_that_holds_it(
    path: str, body: Any, worker: str, bench: Bench
) -> None:
    assert [await bench.where(body, path) for _ in range(3)] == [worker] * 3


@pytest.mark.parametrize(
    "body",
    [
        b'{"pc_id": 7}',
        b'{"pc_id": null}',
        b'["pc_id"]',
        b'"pc_id"',
        b'{"pc_id"',
        b'\xff"pc_id"',
        b'{"pc_id": "w99-nobody"}',
        b'{"pc_id": ' + b"[" * 100_000,
    ],
)
async def test_a_body_that_names_no_worker_is_for_a_worker_to_refuse(
    body: bytes, bench: Bench
) -> None:
    async with bench.client.post("/api/offer", data=body) as response:
        assert response.status == 201, await response.text()
        assert sum(len(worker.requests) for worker in bench.workers) == 1


async def test_answers_come_back_as_they_are(bench: Bench) -> None:
    async with bench.client.post("/api/offer", data=b"full") as response:
        assert response.status == 503
        assert response.headers["Retry-After"] == "5"
        assert response.headers["Location"].startswith("/whip/w")
        assert json.loads(await response.text())["body"] == "full"


async def test_a_worker_learns_who_asks_and_for_which_host(bench: Bench) -> None:
    headers = {"Host": "agent.example", "Origin": "https://page.example", "Connection": "close"}
    async with bench.client.get("/v1/info", headers=headers):
        pass
    seen = next(worker.headers for worker in bench.workers if worker.headers)
    assert seen["Host"] == "agent.example"
    assert seen["Origin"] == "https://page.example"
    assert seen["X-Forwarded-For"] == "127.0.0.1"


async def test_a_worker_that_is_down_costs_a_new_caller_nothing(bench: Bench) -> None:
    await bench.workers[0].stop()
    assert {await bench.where({}) for _ in range(4)} == {"w1", "w12"}
    await bench.workers[0].start()
    await bench.front.look()
    assert "w0" in {await bench.where({}) for _ in range(6)}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_worker_that_dies_over_a_request_leaves_it_to_another(
    method: str, bench: Bench
) -> None:
    bench.workers[0].dies = True
    for _ in range(4):
        async with bench.client.request(method, "/api/offer") as response:
            assert (await response.json())["worker"] in {"w1", "w12"}


async def test_a_request_that_workers_die_of_does_not_kill_them_all(bench: Bench) -> None:
    for worker in bench.workers:
        worker.dies = True
    status, answer = await bench.post({})
    assert status == 503 and "went away" in answer["error"]["message"]
    assert sum(len(worker.requests) for worker in bench.workers) == 2


async def test_a_call_whose_worker_is_down_is_not_given_to_another(bench: Bench) -> None:
    await bench.workers[1].stop()
    status, answer = await bench.post({"pc_id": "w1-secret"})
    assert status == 503
    assert answer["error"]["code"] == "engine_failed"
    assert not bench.workers[0].requests and not bench.workers[2].requests


async def test_without_any_worker_the_answer_says_when_to_try_again(bench: Bench) -> None:
    for worker in bench.workers:
        await worker.stop()
    async with bench.client.post("/api/offer", json={}) as response:
        assert response.status == 503
        assert response.headers["Retry-After"] == "2"
        assert "No media process" in (await response.json())["error"]["message"]
    async with bench.client.get("/healthz") as response:
        assert response.status == 200


async def test_while_it_stops_the_front_says_so(bench: Bench) -> None:
    for worker in bench.workers:
        await worker.stop()
    bench.front.stopping = True
    async with bench.client.post("/api/offer", json={}) as response:
        assert response.status == 503
        assert (await response.json())["error"]["code"] == "server_draining"


async def test_a_worker_that_hangs_is_given_up_in_time_and_asked_no_more(
    tmp_path: Path, aiohttp_client: StartClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "PLACE_TIMEOUT_S", 0.3)
    workers = [FakeWorker(name, tmp_path / f"{name}.sock") for name in ("w0", "w1")]
    workers[0].hangs = True
    for worker in workers:
        await worker.start()
    client = await aiohttp_client(Front({w.name: w.path for w in workers}).app())
    async with client.post("/api/offer", json={}) as response:
        assert response.status == 503
        assert "try again" in (await response.json())["error"]["message"]
    for _ in range(3):
        async with client.post("/api/offer", json={}) as response:
            assert (await response.json())["worker"] == "w1"
    await client.close()
    for worker in workers:
        await worker.stop()


async def test_a_body_too_large_is_refused_before_any_worker_sees_it(bench: Bench) -> None:
    async with bench.client.post("/api/offer", data=b"x" * 2**20) as response:
        assert response.status == 413
    assert not any(worker.requests for worker in bench.workers)


async def test_a_web_socket_goes_through_both_ways(bench: Bench) -> None:
    async with bench.client.ws_connect("/ws") as ws:
        await ws.send_str("hello")
        assert (await ws.receive_str()).endswith(": hello")
        await ws.send_bytes(b"ab")
        assert await ws.receive_bytes() == b"abab"
        await ws.send_str("bye")
        closed = await ws.receive()
        assert closed.type is aiohttp.WSMsgType.CLOSE
        assert ws.close_code == 4321


async def test_a_web_socket_that_was_lost_is_told_from_one_that_was_closed(bench: Bench) -> None:
    front = Front({worker.name: worker.path for worker in bench.workers})
    # As a server runs it; the test client's server would cancel what a lost client asked for.
    runner = web.AppRunner(front.app(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/ws"
    try:
        async with aiohttp.ClientSession() as client:
            async with client.ws_connect(url):
                pass
            lost = await client.ws_connect(url)
            connection = lost._response.connection
            assert connection is not None and connection.transport is not None
            connection.transport.close()
            async with asyncio.timeout(10):
                while len(codes := [c for w in bench.workers for c in w.close_codes]) < 2:
                    await asyncio.sleep(0.02)
    finally:
        await runner.cleanup()
    assert sorted(codes) == [1000, 1014]


async def test_a_refused_web_socket_is_that_refusal_and_no_fault_of_the_worker(
    bench: Bench,
) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await bench.client.ws_connect("/ws?refuse=1")
    assert refusal.value.status == 503
    assert refusal.value.headers is not None and refusal.value.headers["Retry-After"] == "5"
    assert {await bench.where({}) for _ in range(6)} == {"w0", "w1", "w12"}
