"""HTTP contracts of the routes, over a transport without a network."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient

from rtc_agent.call.transport import Transport, TransportEvents
from rtc_agent.config import IceServer
from rtc_agent.errors import InvalidOffer, InvalidRequest
from signaling.app import MAX_BODY_BYTES, create_app
from signaling.parts import ServerParts
from tests.call.fakes import CallBench, FakeTransport, call_bench
from tests.engine.fakes import FakeStepper

Client = TestClient[web.Request, web.Application]
StartClient = Callable[[web.Application], Awaitable[Client]]


class TricklingTransport(FakeTransport):
    """A fake transport that takes candidates."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.candidates: list[tuple[str | None, str | None, int | None]] = []

    async def add_candidate(
        self, candidate: str | None, sdp_mid: str | None, sdp_mline_index: int | None
    ) -> None:
        if candidate == "garbage":
            raise InvalidRequest("That is no candidate.")
        self.candidates.append((candidate, sdp_mid, sdp_mline_index))


class Site:
    """An application over a bench, and what its transports did."""

    def __init__(self, bench: CallBench, client: Client) -> None:
        self.bench = bench
        self.client = client
        self.transports: list[TricklingTransport] = []

    async def offer(self, **fields: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
        body = {"sdp": "v=0", "type": "offer", **fields}
        response = await self.client.post("/api/offer", json=body)
        return response.status, await response.json(), dict(response.headers)


@contextlib.asynccontextmanager
async def site(aiohttp_client: StartClient, slots: int = 2) -> AsyncIterator[Site]:
    async with call_bench(FakeStepper(slots=slots)) as bench:
        transports: list[TricklingTransport] = []

        async def answer(sdp: str, events: TransportEvents) -> tuple[Transport, str]:
            if sdp == "bad":
                raise InvalidOffer("That is no session description.")
            if sdp == "broken":
                raise RuntimeError("secret detail")
            transports.append(TricklingTransport(bench.clock, events))
            return transports[-1], "v=0 answer"

        servers = [IceServer(urls="turn:turn.example", username="u", credential="c")]
        parts = ServerParts(bench.registry, answer, servers)
        made = Site(bench, await aiohttp_client(create_app(parts)))
        made.transports = transports
        yield made


async def test_an_offer_is_answered_with_an_id_nobody_can_guess(
    aiohttp_client: StartClient,
) -> None:
    async with site(aiohttp_client) as it:
        status, body, _ = await it.offer(pc_id=None, requestData={"voice": None})
        assert status == 200
        assert body["type"] == "answer" and body["sdp"] == "v=0 answer"
        assert len(body["pc_id"]) >= 20


async def test_an_unknown_pc_id_is_a_new_call_and_a_known_one_a_conflict(
    aiohttp_client: StartClient,
) -> None:
    async with site(aiohttp_client) as it:
        _, first, _ = await it.offer(pc_id="from another day")
        status, body, _ = await it.offer(pc_id=first["pc_id"])
        assert status == 409
        assert body["error"]["code"] == "call_conflict"
        assert len(it.bench.registry) == 1


async def test_a_full_server_says_when_to_come_back(aiohttp_client: StartClient) -> None:
    async with site(aiohttp_client, slots=1) as it:
        await it.offer()
        status, body, headers = await it.offer()
        assert status == 503
        assert body["error"]["code"] == "server_full"
        assert int(headers["Retry-After"]) > 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"offer"',
        b"\xff\xfe",
        b"{}",
        b'{"sdp": 3, "type": "offer"}',
        b'{"sdp": "v=0", "type": "answer"}',
        b'{"sdp": "v=0", "type": "offer", "request_data": {"seed": -1}}',
        b'{"sdp": "bad", "type": "offer"}',
        b"[" * 100_000,
    ],
)
async def test_a_malformed_offer_is_a_400_that_says_why(
    aiohttp_client: StartClient, body: bytes
) -> None:
    async with site(aiohttp_client) as it:
        response = await it.client.post("/api/offer", data=body)
        assert response.status == 400
        assert len((await response.json())["error"]["message"]) > 20
        await it.bench.run(0.1)
        assert it.bench.engine.status().slots_free == 2


async def test_a_choice_in_the_wrong_place_is_refused_instead_of_ignored(
    aiohttp_client: StartClient,
) -> None:
    async with site(aiohttp_client) as it:
        offer = {"sdp": "v=0", "type": "offer", "persona": "a pirate", "voice": "x"}
        response = await it.client.post("/api/offer", json=offer)
        assert response.status == 400
        message = (await response.json())["error"]["message"]
        assert "persona and voice beside request_data" in message and "pirate" not in message


async def test_a_body_of_a_megabyte_is_refused(aiohttp_client: StartClient) -> None:
    async with site(aiohttp_client) as it:
        status, body, _ = await it.offer(sdp="x" * (1 << 20))
        assert status == 413
        assert str(MAX_BODY_BYTES) in body["error"]["message"]


async def test_what_fails_inside_is_told_without_its_detail(aiohttp_client: StartClient) -> None:
    async with site(aiohttp_client) as it:
        status, body, _ = await it.offer(sdp="broken")
        assert status == 500
        assert "secret" not in json.dumps(body)
        await it.bench.run(0.1)
        assert it.bench.engine.status().slots_free == 2


async def test_candidates_reach_their_call_in_every_spelling(aiohttp_client: StartClient) -> None:
    async with site(aiohttp_client) as it:
        _, answer, _ = await it.offer()
        items = [
            {"candidate": "candidate:1 1 udp 1 10.0.0.1 9 typ host", "sdp_mid": "0"},
            {"candidate": "x", "sdpMid": "1", "sdpMLineIndex": 1},
            {"candidate": ""},
            {"candidate": None},
            {},
        ]
        response = await it.client.patch(
            "/api/offer", json={"pc_id": answer["pc_id"], "candidates": items}
        )
        assert response.status == 200
        assert await response.json() == {"status": "success"}
        assert (
            it.transports[0].candidates[1:]
            == [("x", "1", 1), ("", None, None)] + [(None, None, None)] * 2
        )


@pytest.mark.parametrize(
    ("patch", "status"),
    [
        ({"pc_id": "nobody", "candidates": []}, 404),
        ({"candidates": []}, 400),
        ({"pc_id": None, "candidates": [{}]}, 400),
        ({"pc_id": "x", "candidates": [{}] * 201}, 400),
    ],
)
async def test_candidates_that_fit_no_call_are_refused(
    aiohttp_client: StartClient, patch: dict[str, Any], status: int
) -> None:
    async with site(aiohttp_client) as it:
        response = await it.client.patch("/api/offer", json=patch)
        assert response.status == status
        assert "error" in await response.json()


async def test_a_candidate_that_is_none_is_a_400(aiohttp_client: StartClient) -> None:
    async with site(aiohttp_client) as it:
        _, answer, _ = await it.offer()
        response = await it.client.patch(
            "/api/offer",
            json={"pc_id": answer["pc_id"], "candidates": [{"candidate": "garbage"}]},
        )
        assert response.status == 400


async def test_health_readiness_and_info(aiohttp_client: StartClient) -> None:
    async with site(aiohttp_client) as it:
        assert (await it.client.get("/healthz")).status == 200
        assert (await it.client.get("/readyz")).status == 200
        info = await (await it.client.get("/v1/info")).json()
        assert info["agent"] == "fake"
        assert info["slots"] == {"total": 2, "free": 2}
        assert info["ice_servers"][0]["urls"] == "turn:turn.example"
        assert info["notice"] == ""
        await it.bench.engine.aclose()
        response = await it.client.get("/readyz")
        assert response.status == 503
        assert (await response.json())["detail"]
        assert (await it.client.get("/healthz")).status == 200
        assert (await it.offer())[0] == 503


async def test_a_stopping_server_takes_no_calls_and_says_so(aiohttp_client: StartClient) -> None:
    async with site(aiohttp_client) as it:
        await it.bench.registry.aclose(1)
        assert (await it.offer())[1]["error"]["code"] == "server_draining"
        assert (await it.client.get("/readyz")).status == 503


async def test_the_page_comes_with_a_strict_policy(aiohttp_client: StartClient) -> None:
    async with site(aiohttp_client) as it:
        response = await it.client.get("/")
        assert response.status == 200
        assert response.content_type == "text/html"
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/offer", 405),
        ("DELETE", "/healthz", 405),
        ("GET", "/../pyproject.toml", 404),
        ("GET", "/%2e%2e/pyproject.toml", 404),
        ("GET", "/js/..%2f..%2fpyproject.toml", 404),
    ],
)
async def test_wrong_addresses_are_told_as_json(
    aiohttp_client: StartClient, method: str, path: str, status: int
) -> None:
    async with site(aiohttp_client) as it:
        response = await it.client.request(method, path)
        assert response.status == status
        assert "error" in await response.json()


async def test_a_hundred_offers_at_once_take_only_the_slots_there_are(
    aiohttp_client: StartClient,
) -> None:
    async with site(aiohttp_client, slots=2) as it:
        answers = await asyncio.gather(*(it.offer() for _ in range(100)))
        assert sorted(status for status, _, _ in answers) == [200] * 2 + [503] * 98
