"""What a replica lets fronts reach, on real sockets, with workers that say what a test wants."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from rtc_agent.cluster.replica_front import PROMPT_HEADER, SECRET_HEADER, STATE, ReplicaFront
from signaling.parts import Access
from tests.signaling.test_front import FakeWorker

SECRET = "the cluster's"
ID, OTHER = "r0000000a", "r0000000b"


class Worker(FakeWorker):
    """One that also tells of its engine."""

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path == "/readyz":
            return web.json_response({"ready": True, "detail": "", "slots": 4, "slots_free": 3})
        return await super()._answer(request)


class Bench:
    def __init__(self, front: ReplicaFront, worker: Worker, client: Any) -> None:
        self.front = front
        self.worker = worker
        self.client = client

    async def ask(
        self, method: str, path: str, secret: str | None = SECRET, body: Any = None, **headers: str
    ) -> tuple[int, Any]:
        if secret is not None:
            headers[SECRET_HEADER] = secret
        async with self.client.request(method, path, json=body, headers=headers) as answer:
            return answer.status, await answer.json()


@contextlib.asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    worker = Worker("w0", folder / "w0.sock")
    await worker.start()
    front = ReplicaFront(ID, {"w0": worker.path}, Access(token_secret=b"x"), SECRET)
    async with TestClient(TestServer(front.app())) as client:
        yield Bench(front, worker, client)
    await worker.stop()


async def test_only_who_has_the_secret_is_let_in(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        for secret in (None, "", "guessed", "ü"):
            for path in ("/api/offer", "/v1/info", STATE, "/healthz"):
                status, answer = await it.ask("GET", path, secret)
                assert (status, answer["error"]["code"]) == (403, "forbidden")
        assert not [r for r in it.worker.requests if "readyz" not in r]
        assert (await it.ask("POST", "/api/offer", body={}))[0] == 201


async def test_a_front_is_believed_where_its_client_is(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await it.ask("POST", "/api/offer", **{"X-Forwarded-For": "192.0.2.7"})
        assert it.worker.headers["X-Forwarded-For"] == "192.0.2.7"


async def test_it_says_how_it_is_doing(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        for prompt in ("one", "two", "one"):
            await it.ask("POST", "/api/offer", body={}, **{PROMPT_HEADER: prompt})
        it.worker.calls = 1
        await it.front.look()
        status, state = await it.ask("GET", STATE)
        assert status == 200
        assert (state["id"], state["ready"], state["draining"]) == (ID, True, False)
        assert (state["slots"], state["slots_free"], state["calls"]) == (4, 3, 1)
        assert state["prompts"] == ["two", "one"]
        await it.worker.stop()
        await it.front.look()
        _, state = await it.ask("GET", STATE)
        assert not state["ready"] and state["detail"] == "No media worker answers."


async def test_a_draining_one_takes_no_new_call_and_goes_on_with_those_it_has(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as it:
        it.worker.calls = 1
        it.front.draining = True
        for path, body in (("/api/offer", {}), ("/whip", None), ("/v1/realtime/calls", None)):
            status, answer = await it.ask("POST", path, body=body)
            assert (status, answer["error"]["code"]) == (503, "server_draining")
        # Nor one that comes back to a replica that is no more.
        lost = {"pc_id": f"{OTHER}-w0-secret"}
        assert (await it.ask("POST", "/api/offer", body=lost))[0] == 503
        mine = {"pc_id": f"{ID}-w0-secret"}
        assert (await it.ask("POST", "/api/offer", body=mine))[0] == 201
        assert (await it.ask("DELETE", f"/whip/{ID}-w0-secret"))[0] == 201
        assert not await it.front.is_empty()
        it.worker.calls = 0
        assert await it.front.is_empty()


async def test_it_is_not_empty_while_a_call_is_being_placed(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        it.worker.hangs = True
        placing = asyncio.create_task(it.ask("POST", "/api/offer", body={}))
        async with asyncio.timeout(10):
            while "POST /api/offer" not in it.worker.requests:
                await asyncio.sleep(0.01)
        it.front.draining = True
        assert not await it.front.is_empty()
        placing.cancel()
