"""A cluster's front before replicas that say what a test wants: where requests go, and what callers
see when replicas are full, go away or hang."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from rtc_agent.call.holder import Holder
from rtc_agent.cluster import front as front_module
from rtc_agent.cluster.front import ClusterFront
from rtc_agent.cluster.ids import new_replica_id
from rtc_agent.cluster.plan import Member
from rtc_agent.cluster.replica_front import PROMPT_HEADER, SECRET_HEADER, STATE, ReplicaState
from rtc_agent.cluster.view import CUT_OFF_S
from signaling.guard import GuardRules
from signaling.keyring import Key, Scope
from signaling.parts import Access

SECRET = "the cluster's"
KEY = "a key that is long enough"
KEYS = (
    Key("caller", hashlib.sha256(KEY.encode()).hexdigest(), max_calls=2),
    Key("operator", hashlib.sha256(b"operator").hexdigest(), frozenset({Scope.ADMIN})),
)


class FakeReplica:
    """A replica's HTTP side: gives calls out while it has slots, and tells what it was asked."""

    def __init__(self, slots: int) -> None:
        self.id = new_replica_id()
        self.slots = slots
        self.calls = 0
        self.ready = True
        self.draining = False
        self.dies = False
        self.hangs = False
        self.prompts: set[str] = set()
        self.holders: list[dict[str, str]] = []
        self.requests: list[str] = []
        self.headers: dict[str, str] = {}
        app = web.Application()
        app.router.add_get(STATE, self._state)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/calls", self._calls)
        app.router.add_get("/v1/info", self._info)
        app.router.add_get("/api/chat", self._chat)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.server = TestServer(app)

    @property
    def member(self) -> Member:
        return Member(self.id, str(self.server.make_url("")).rstrip("/"))

    async def _state(self, request: web.Request) -> web.Response:
        assert request.headers[SECRET_HEADER] == SECRET
        state = ReplicaState(
            self.id,
            self.ready,
            "" if self.ready else "The agent is being loaded.",
            self.draining,
            self.slots,
            self.slots - self.calls,
            self.calls,
            tuple(self.prompts),
        )
        return web.json_response(state.to_json() | {"holders": self.holders})

    async def _metrics(self, _: web.Request) -> web.Response:
        text = "# HELP rtc_agent_calls Calls\n# TYPE rtc_agent_calls gauge\nrtc_agent_calls 3.0\n"
        return web.Response(text=text)

    async def _calls(self, _: web.Request) -> web.Response:
        return web.json_response({"calls": [{"call_id": f"call-{self.id}-w0-1", "age_s": 1.0}]})

    async def _info(self, _: web.Request) -> web.Response:
        return web.json_response({"agent": "fake", "slots": {"total": 1, "free": 1}})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if self.calls >= self.slots:
            raise web.HTTPServiceUnavailable(headers={"Retry-After": "5"})
        self.calls += 1
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        async for message in ws:
            await ws.send_bytes(self.id.encode() + message.data)
        return ws

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append(f"{request.method} {request.path_qs}")
        self.headers = dict(request.headers)
        if self.dies:
            assert request.transport is not None
            request.transport.abort()
        if self.hangs:
            await asyncio.sleep(600)
        owned = self.id in request.path_qs or self.id.encode() in body
        if request.method == "POST" and not owned:
            if self.calls >= self.slots:
                error = {"error": {"code": "server_full", "message": f"{self.id} is full."}}
                return web.json_response(error, status=503, headers={"Retry-After": "5"})
            self.calls += 1
            self.holders.append({"key": "caller", "address": "127.0.0.1"})
            self.prompts |= {request.headers.get(PROMPT_HEADER, "")}
        session = f"{self.id}-w0-secret{len(self.requests)}"
        return web.json_response(
            {"replica": self.id, "pc_id": session},
            status=201,
            headers={"Location": f"/whip/{session}", "X-Path": request.path},
        )


class Bench:
    def __init__(self, front: ClusterFront, replicas: list[FakeReplica], client: Any) -> None:
        self.front = front
        self.replicas = replicas
        self.client = client

    async def post(self, path: str = "/api/offer", body: Any = None, **headers: str) -> Any:
        async with self.client.post(path, json=body or {}, headers=headers) as answer:
            self.status, self.answered = answer.status, answer.headers
            return await answer.json()

    async def told(self) -> None:
        await self.front.take([replica.member for replica in self.replicas])
        await self.front.view.look()


@contextlib.asynccontextmanager
async def bench(*slots: int, access: Access | None = None) -> AsyncIterator[Bench]:
    replicas = [FakeReplica(count) for count in slots]
    async with contextlib.AsyncExitStack() as stack:
        for replica in replicas:
            await stack.enter_async_context(replica.server)
        front = ClusterFront(access or Access(token_secret=b"x"), SECRET)
        client = await stack.enter_async_context(TestClient(TestServer(front.app())))
        it = Bench(front, replicas, client)
        await it.told()
        yield it


async def test_calls_go_where_most_is_free_and_never_beyond() -> None:
    async with bench(1, 3) as it:
        seen = [(await it.post())["replica"] for _ in range(4)]
        assert seen[:2] == [it.replicas[1].id] * 2 and sorted(seen) == sorted(
            [it.replicas[0].id, *[it.replicas[1].id] * 3]
        )
        answer = await it.post()
        assert (it.status, answer["error"]["code"]) == (503, "server_full")
        assert it.answered["Retry-After"] == "5"


async def test_a_front_that_is_behind_is_put_right_by_the_replica() -> None:
    async with bench(2, 2) as it:
        it.replicas[0].calls = 2  # Through another front, a moment ago.
        assert {(await it.post())["replica"] for _ in range(2)} == {it.replicas[1].id}
        assert it.replicas[0].requests, "it was asked, for only it knows"


async def test_a_replica_that_has_room_again_is_found_before_anybody_is_turned_away() -> None:
    async with bench(1, 1) as it:
        it.replicas[0].calls = it.replicas[1].calls = 1
        it.replicas[1].ready = False
        await it.told()
        it.replicas[1].ready, it.replicas[1].calls = True, 0
        await asyncio.sleep(front_module.LOOK_AGAIN_S)
        assert (await it.post())["replica"] == it.replicas[1].id


async def test_a_known_prompt_is_preferred_while_there_is_room() -> None:
    async with bench(2, 4) as it:
        wish = {"request_data": {"voice": "NATF2", "persona": "You are a pirate."}}
        it.replicas[1].calls = 3
        await it.front.view.look()
        assert (await it.post(body=wish))["replica"] == it.replicas[0].id
        it.replicas[1].calls = 0
        await it.front.view.look()
        assert (await it.post(body=wish))["replica"] == it.replicas[0].id, "it has the prompt"
        assert (await it.post(body=wish))["replica"] == it.replicas[1].id, "it has the room"


async def test_what_belongs_to_a_call_finds_its_replica_through_a_front_that_never_saw_it() -> None:
    async with bench(9, 9) as it:
        for replica in it.replicas:
            session = f"{replica.id}-w0-secret"
            for method, path, body in (
                ("PATCH", "/api/offer", {"pc_id": session, "candidates": []}),
                ("POST", "/api/offer", {"pc_id": session, "restart_pc": True}),
                ("PATCH", f"/whip/{session}", None),
                ("DELETE", f"/whip/{session}", None),
                ("POST", f"/sessions/{session}/api/offer", {}),
                ("POST", f"/v1/realtime/calls/{session}/hangup", None),
                ("DELETE", f"/v1/calls/call-{session}", None),
                ("POST", f"/whep/call-{session}", None),
                ("DELETE", f"/whep/sessions/{session}", None),
            ):
                async with it.client.request(method, path, json=body) as answer:
                    assert (await answer.json())["replica"] == replica.id, (method, path)


async def test_what_belongs_to_a_call_of_a_replica_that_is_gone_is_gone() -> None:
    async with bench(9, 9) as it:
        lost = it.replicas[0]
        session = f"{lost.id}-w0-secret"
        await lost.server.close()
        for _ in range(2):  # Once before the controller has noticed, once after.
            for method, path, body in (
                ("PATCH", "/api/offer", {"pc_id": session, "candidates": []}),
                ("PATCH", f"/whip/{session}", None),
                ("DELETE", f"/v1/calls/call-{session}", None),
                ("POST", f"/sessions/{session}/api/offer", {}),
            ):
                async with it.client.request(method, path, json=body) as answer:
                    assert answer.status == 410, (method, path)
                    assert "call again" in (await answer.json())["error"]["message"]
            for path in ("/api/offer", f"/sessions/{session}/api/offer"):
                answer = await it.post(path, {"pc_id": session, "restart_pc": True})
                assert (it.status, answer["replica"]) == (201, it.replicas[1].id)
                assert it.answered["X-Path"] == "/api/offer"
            await it.front.take([it.replicas[1].member])


async def test_a_call_on_a_host_that_is_cut_off_begins_anew_elsewhere_once_that_is_likely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(front_module, "PLACE_TIMEOUT_S", 0.2)
    async with bench(9, 9) as it:
        back = {"pc_id": f"{it.replicas[0].id}-w0-secret", "restart_pc": True}
        it.replicas[0].hangs = True
        answer = await it.post(body=back)
        assert (it.status, answer["error"]["code"]) == (503, "engine_failed")
        replica = it.front.view.get(it.replicas[0].id)
        assert replica is not None
        replica.answered_s -= CUT_OFF_S
        assert (await it.post(body=back))["replica"] == it.replicas[1].id
        async with it.client.patch("/api/offer", json=back) as refused:
            assert refused.status == 503, "it may yet be there"


async def test_a_replica_that_dies_over_an_offer_leaves_it_to_another() -> None:
    async with bench(9, 5, 1) as it:
        it.replicas[0].dies = True
        assert (await it.post())["replica"] == it.replicas[1].id
        it.replicas[1].dies = it.replicas[2].dies = True
        await it.told()
        answer = await it.post()
        assert (it.status, answer["error"]["code"]) == (503, "engine_failed")
        assert not it.replicas[2].requests, "what two died of does not get a third"


async def test_a_replica_that_hangs_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_module, "PLACE_TIMEOUT_S", 0.3)
    async with bench(9, 1) as it:
        it.replicas[0].hangs = True
        answer = await it.post()
        assert (it.status, answer["error"]["code"]) == (503, "engine_failed")
        assert (await it.post())["replica"] == it.replicas[1].id, "it is asked no more"


async def test_draining_and_loading_replicas_get_no_calls() -> None:
    async with bench(9, 9) as it:
        it.replicas[0].ready = False
        await it.told()
        assert (await it.post())["replica"] == it.replicas[1].id
        members = [
            it.replicas[0].member,
            Member(it.replicas[1].id, it.replicas[1].member.url, True),
        ]
        await it.front.take(members)
        async with it.client.get("/readyz") as answer:
            assert answer.status == 503
            assert "being loaded" in (await answer.json())["detail"]
        await it.front.take(members[1:])
        answer = await it.post()
        assert it.status in (201, 503)
        async with it.client.get("/readyz") as answer:
            assert (await answer.json())["detail"] == "All servers are being stopped."


async def test_without_any_replica_the_answer_says_when_to_try_again() -> None:
    async with bench() as it:
        answer = await it.post()
        assert (it.status, answer["error"]["code"]) == (503, "engine_failed")
        assert it.answered["Retry-After"].isdigit()
        async with it.client.get("/healthz") as alive:
            assert alive.status == 200


async def test_the_whole_cluster_is_summed() -> None:
    async with bench(3, 4) as it:
        it.replicas[1].calls = 1
        await it.told()
        async with it.client.get("/v1/info") as answer:
            info = await answer.json()
        assert info["slots"] == {"total": 7, "free": 6} and info["agent"] == "fake"
        assert info["replicas"] == {"total": 2, "ready": 2}
        async with it.client.get("/v1/calls") as answer:
            assert len((await answer.json())["calls"]) == 2
        async with it.client.get("/metrics") as answer:
            text = await answer.text()
        for replica in it.replicas:
            assert f'rtc_agent_calls{{replica="{replica.id}"}} 3.0' in text
        assert "rtc_agent_cluster_slots_free 6.0" in text
        assert 'rtc_agent_cluster_replicas{state="ready"} 2.0' in text


async def test_a_web_socket_call_goes_to_who_has_a_slot() -> None:
    async with bench(1, 1) as it:
        it.replicas[0].calls = 1
        async with it.client.ws_connect("/api/chat") as ws:
            await ws.send_bytes(b"!")
            assert await ws.receive_bytes() == it.replicas[1].id.encode() + b"!"
            assert it.front.sockets == 1
            with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
                await it.client.ws_connect("/api/chat")
            assert refusal.value.status == 503
        async with asyncio.timeout(10):
            while it.front.sockets:
                await asyncio.sleep(0.01)


async def test_nobody_gets_at_what_is_between_the_parts() -> None:
    async with bench(9) as it:
        async with it.client.get(STATE) as answer:
            assert answer.status == 404
        for name in (str.lower, str.upper):
            await it.post(**{name(SECRET_HEADER): "guessed", name(PROMPT_HEADER): "guessed"})
            assert it.status == 201
            assert "guessed" not in it.replicas[0].headers.values()


async def test_keys_and_their_limits_are_kept_here() -> None:
    access = Access(rules=GuardRules(keys=KEYS, public=True), token_secret=b"x")
    async with bench(9, 9, access=access) as it:
        await it.post()
        assert it.status == 401
        bearer = {"Authorization": f"Bearer {KEY}"}
        assert [(await it.post(**bearer), it.status)[1] for _ in range(3)] == [201, 201, 429]
        # The other front has placed these two, and the caller has hung up the ones from here.
        await asyncio.sleep(front_module.FRESH_S)
        for replica in it.replicas:
            replica.holders = [{"key": "caller", "address": "192.0.2.1"}]
        await it.post(**bearer)
        assert it.status == 429
        for replica in it.replicas:
            replica.holders = []
        await asyncio.sleep(front_module.FRESH_S)
        await it.post(**bearer)
        assert it.status == 201
        async with it.client.get("/v1/calls", headers=bearer) as answer:
            assert answer.status == 403
        operator = {"Authorization": "Bearer operator"}
        async with it.client.get("/v1/calls", headers=operator) as answer:
            assert answer.status == 200


async def test_what_other_fronts_let_in_counts_against_the_rate() -> None:
    rules = GuardRules(keys=KEYS[:1], public=True, key_offers_per_minute=3)
    access = Access(rules=rules, token_secret=b"x")
    async with bench(9, access=access) as it:
        bearer = {"Authorization": f"Bearer {KEY}"}
        await it.post(**bearer)
        assert it.status == 201 and [who.key for who in it.front.let_in] == ["caller"]
        it.front.guard.count(Holder("caller", "192.0.2.1"))
        it.front.guard.count(Holder("caller", "192.0.2.1"))
        await it.post(**bearer)
        assert it.status == 429 and len(it.front.let_in) == 1


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"request_data": 3}', b"[" * 100_000])
async def test_whatever_is_offered_is_a_replicas_to_refuse(body: bytes) -> None:
    async with bench(9) as it:
        async with it.client.post("/api/offer", data=body) as answer:
            assert answer.status == 201
            assert json.loads(await answer.text())["replica"] == it.replicas[0].id
