"""A front with keys: who is let in, limits over all workers, and figures of all of them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from prometheus_client.parser import text_string_to_metric_families

from rtc_agent.call.limits import CallLimits
from rtc_agent.call.registry import CallRegistry
from signaling.app import create_app
from signaling.front import Front
from signaling.guard import GuardRules
from signaling.keyring import Key, Scope
from signaling.parts import Access, ServerParts
from tests.call.fakes import call_bench
from tests.engine.fakes import FakeStepper
from tests.signaling.site import OFFER, Site

Client = TestClient[web.Request, web.Application]
StartClient = Callable[[web.Application], Awaitable[Client]]
BODY = {"sdp": OFFER, "type": "offer"}


def key(name: str, *scopes: Scope, max_calls: int = 0) -> Key:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return Key(name, digest, frozenset(scopes), max_calls)


RULES = GuardRules(
    keys=(
        key("caller", Scope.CALL),
        key("two", Scope.CALL, max_calls=2),
        key("boss", Scope.ADMIN),
    ),
    public=True,
    offers_per_minute=3,
    trusted_proxies=("127.0.0.1",),
)
ACCESS = Access(rules=RULES, token_secret=b"shared", allowed_origins=("https://app.example",))
WORKERS = ("w0", "w1")


class FrontSite:
    def __init__(self, client: Client, front: Front, sites: dict[str, Site]) -> None:
        self.client = client
        self.front = front
        self.sites = sites

    async def offer(self, key: str, address: str = "127.0.0.1", **fields: str) -> int:
        headers = {"Authorization": f"Bearer {key}", "X-Forwarded-For": address}
        async with self.client.post("/api/offer", json=BODY | fields, headers=headers) as response:
            return response.status


@pytest.fixture
async def it(tmp_path: Path, aiohttp_client: StartClient) -> AsyncIterator[FrontSite]:
    """A front over two real workers' applications, whose engines are fakes."""
    async with contextlib.AsyncExitStack() as stack:
        sites, sockets = {}, {}
        for name in WORKERS:
            bench = await stack.enter_async_context(
                call_bench(FakeStepper(slots=8), CallLimits(reconnect_s=10))
            )
            bench.registry = CallRegistry(bench.engine, CallLimits(), bench.clock, name=name)
            sites[name] = Site(bench)
            theirs = replace(ACCESS, rules=replace(RULES, offers_per_minute=0))
            parts = ServerParts(bench.registry, sites[name].answer, [], access=theirs)
            runner = web.AppRunner(create_app(parts), shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            sockets[name] = tmp_path / f"{name}.sock"
            await web.UnixSite(runner, str(sockets[name])).start()
        front = Front(sockets, ACCESS)
        client = await aiohttp_client(front.app())
        stack.push_async_callback(client.close)
        yield FrontSite(client, front, sites)


async def test_keys_are_asked_for_at_the_front(it: FrontSite) -> None:
    assert await it.offer("wrong") == 401
    assert await it.offer("boss") == 403
    assert await it.offer("caller") == 200
    assert sum(len(site.transports) for site in it.sites.values()) == 1


async def test_a_client_secret_of_one_worker_does_for_every_other(it: FrontSite) -> None:
    path, bearer = "/v1/realtime/client_secrets", {"Authorization": "Bearer caller"}
    made = await (await it.client.post(path, json={}, headers=bearer)).json()
    for _ in range(4):
        assert await it.offer(made["value"]) == 200
    assert all(len(site.transports) == 2 for site in it.sites.values())


async def test_limits_count_over_all_workers(it: FrontSite) -> None:
    statuses = [await it.offer("caller", "203.0.113.5") for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    assert [await it.offer("two") for _ in range(3)] == [200, 200, 429]
    await it.front.look()
    assert await it.offer("two") == 429, "and still do once the workers were asked"
    back, _ = [
        call.ids.session
        for site in it.sites.values()
        for call in site.bench.registry
        if call.holder.key == "two"
    ]
    assert await it.offer("two", pc_id=back) == 200, "who comes back to a call has it already"
    made_up = [await it.offer("two", pc_id=f"w0-{number}") for number in range(3)]
    assert 429 in made_up, "an id that names no call lets nobody have more for long"
    for site in it.sites.values():
        for call in site.bench.registry:
            assert call.holder.address in ("203.0.113.5", "127.0.0.1")


async def test_a_call_is_moved_by_its_id_and_not_by_a_made_up_one(it: FrontSite) -> None:
    headers = {"Authorization": "Bearer caller"}
    answer = await (await it.client.post("/api/offer", json=BODY, headers=headers)).json()
    assert await it.offer("", pc_id=answer["pc_id"]) == 200
    assert await it.offer("", pc_id="w0-AAAAAAAAAAAAAAAAAAAAAA") == 401
    assert await it.offer("", pc_id="AAAA") == 401


async def test_calls_and_figures_are_those_of_all_workers(it: FrontSite) -> None:
    for _ in range(2):
        assert await it.offer("caller") == 200
    assert await it.offer("wrong") == 401
    for path in ("/v1/calls", "/metrics"):
        assert (await it.client.get(path)).status == 401
    boss = {"Authorization": "Bearer boss"}
    calls = (await (await it.client.get("/v1/calls", headers=boss)).json())["calls"]
    assert sorted(call["call_id"][:7] for call in calls) == ["call-w0", "call-w1"]
    text = await (await it.client.get("/metrics", headers=boss)).text()
    samples = {
        (s.name, s.labels.get("worker"), s.labels.get("state") or s.labels.get("reason")): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    for name in WORKERS:
        assert samples["rtc_agent_calls", name, "connecting"] == 1
        assert samples["rtc_agent_worker_up", name, None] == 1
    assert samples["rtc_agent_refusals_total", "front", "unauthorized"] >= 1
    assert samples["rtc_agent_engine_slots", None, None] == 8, "once, not added up"
    ended = await it.client.delete(f"/v1/calls/{calls[0]['call_id']}", headers=boss)
    assert ended.status == 204
    calls = (await (await it.client.get("/v1/calls", headers=boss)).json())["calls"]
    assert len(calls) == 1


async def test_what_is_internal_is_not_passed_on(it: FrontSite) -> None:
    response = await it.client.get("/internal/holders", headers={"Authorization": "Bearer boss"})
    assert response.status == 404


async def test_pages_of_other_origins_can_read_a_refusal(it: FrontSite) -> None:
    origin = {"Origin": "https://app.example"}
    asked = origin | {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    preflight = await it.client.options("/start", headers=asked)
    assert preflight.status == 204
    assert preflight.headers["Access-Control-Allow-Headers"] == "authorization"
    refused = await it.client.post("/start", json={}, headers=origin)
    assert refused.status == 401
    assert refused.headers["Access-Control-Allow-Origin"] == "https://app.example"
