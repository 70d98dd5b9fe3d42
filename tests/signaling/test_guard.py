"""The application with keys: who gets in, and who has had enough."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from signaling.guard import GUARD, WRONG_KEYS_PER_MINUTE, GuardRules
from signaling.keyring import Key, Scope
from signaling.parts import Access
from tests.engine.fakes import FakeStepper
from tests.signaling.site import OFFER, RELAY, Site, StartClient, serving


def key(name: str, *scopes: Scope, max_calls: int = 0) -> Key:
    digest = hashlib.sha256(f"secret of {name}".encode()).hexdigest()
    return Key(name, digest, frozenset(scopes), max_calls)


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer secret of {name}"}


KEYS = (
    key("caller", Scope.CALL),
    key("two", Scope.CALL, max_calls=2),
    key("ear", Scope.LISTEN),
    key("boss", Scope.ADMIN),
)
RULES = GuardRules(keys=KEYS, public=True, trusted_proxies=("127.0.0.1",))
OFFER_BODY = {"sdp": OFFER, "type": "offer"}


async def offer(it: Site, headers: dict[str, str], **fields: str) -> tuple[int, dict[str, object]]:
    async with it.client.post("/api/offer", json=OFFER_BODY | fields, headers=headers) as response:
        return response.status, await response.json()


def rules(it: Site, changed: GuardRules) -> None:
    app = it.client.app
    assert app is not None
    app[GUARD].use(changed)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "unauthorized"),
        ({"Authorization": "Bearer wrong"}, 401, "unauthorized"),
        ({"Authorization": "Basic c2VjcmV0"}, 401, "unauthorized"),
        ({"Authorization": "Bearer \udcff\udcfe"}, 401, "unauthorized"),
        (bearer("ear"), 403, "forbidden"),
        (bearer("boss"), 403, "forbidden"),
    ],
)
async def test_calls_need_a_key_for_calls(
    aiohttp_client: StartClient, headers: dict[str, str], status: int, code: str
) -> None:
    async with serving(aiohttp_client, access=Access(rules=RULES)) as it:
        for path in ("/api/offer", "/start", "/v1/realtime/client_secrets"):
            response = await it.client.post(path, json=OFFER_BODY, headers=headers)
            assert response.status == status
            assert (await response.json())["error"]["code"] == code
            assert ("WWW-Authenticate" in response.headers) == (status == 401)
        assert it.free == 4 and not it.transports


async def test_a_key_opens_and_a_call_is_then_held_by_its_id(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, access=Access(rules=RULES)) as it:
        status, answer = await offer(it, bearer("caller"))
        assert status == 200
        pc_id = str(answer["pc_id"])
        patch = await it.client.patch("/api/offer", json={"pc_id": pc_id, "candidates": []})
        assert patch.status == 200
        assert (await offer(it, {}, pc_id=pc_id))[0] == 200, "offered anew by its id"
        assert (await offer(it, {}, pc_id="x" * len(pc_id)))[0] == 401
        [call] = it.bench.registry
        assert call.holder.key == "caller"


async def test_a_client_secret_calls_until_it_expires(aiohttp_client: StartClient) -> None:
    now = [1_000.0]
    access = Access(rules=RULES, wall=lambda: now[0])
    async with serving(aiohttp_client, access=access) as it:
        body = {"expires_after": {"anchor": "created_at", "seconds": 60}}
        path = "/v1/realtime/client_secrets"
        made = await it.client.post(path, json=body, headers=bearer("two"))
        secret = {"Authorization": f"Bearer {(await made.json())['value']}"}
        assert (await offer(it, secret))[0] == 200
        metrics = await it.client.get("/v1/calls", headers=secret)
        assert metrics.status == 403, "it is for calls alone"
        assert (await offer(it, secret))[0] == 200
        status, refusal = await offer(it, secret)
        assert status == 429, "its calls count as those of the key that made it"
        now[0] += 60
        assert (await offer(it, secret))[0] == 401


async def test_without_its_key_a_client_secret_is_worth_nothing(
    aiohttp_client: StartClient,
) -> None:
    async with serving(aiohttp_client, access=Access(rules=RULES)) as it:
        made = await it.client.post(
            "/v1/realtime/client_secrets", json={}, headers=bearer("caller")
        )
        secret = {"Authorization": f"Bearer {(await made.json())['value']}"}
        rules(it, replace(RULES, keys=KEYS[1:]))
        assert (await offer(it, secret))[0] == 401


async def test_a_websocket_may_bring_a_client_secret_in_its_address(
    aiohttp_client: StartClient,
) -> None:
    async with serving(aiohttp_client, access=Access(rules=RULES)) as it:
        made = await it.client.post(
            "/v1/realtime/client_secrets", json={}, headers=bearer("caller")
        )
        value = (await made.json())["value"]
        async with it.client.ws_connect(f"/api/chat?access_token={value}"):
            assert it.free == 3
        for given in ("", "secret of caller"):
            with pytest.raises(Exception, match="401"):
                await it.client.ws_connect("/api/chat", params={"access_token": given})


async def test_relays_are_told_to_those_who_may_call(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, access=Access(rules=RULES)) as it:
        for headers, seen in (({}, False), (bearer("caller"), True)):
            response = await it.client.get("/v1/info", headers=headers)
            info = await response.json()
            assert response.status == 200
            assert info["needs_key"] is not seen
            assert bool(info["ice_servers"]) is seen


async def test_operators_see_how_relays_do(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, access=Access(rules=RULES)) as it:
        for name, known in (("caller", {}), ("boss", {"away": True, "fault": "did not answer"})):
            response = await it.client.get("/v1/info", headers=bearer(name))
            relays = (await response.json())["relays"]
            assert relays == ({RELAY: {**known, "failures": 3}} if known else {})
        text = await (await it.client.get("/metrics", headers=bearer("boss"))).text()
        assert f'rtc_agent_relay_up{{relay="{RELAY}"}} 0.0' in text
        assert f'rtc_agent_relay_failures_total{{relay="{RELAY}"}} 3.0' in text


async def test_a_voice_can_be_listened_to_by_those_who_may_call(
    aiohttp_client: StartClient, tmp_path: Path
) -> None:
    sample = tmp_path / "Ana.sample.wav"
    sample.write_bytes(b"RIFF")
    stepper = FakeStepper()
    gone = {"Ana": str(sample), "Ben": str(tmp_path / "gone.wav")}
    stepper.info = replace(stepper.info, voices=("Ana", "Ben", "Eve"), voice_samples=gone)
    async with serving(aiohttp_client, stepper=stepper, access=Access(rules=RULES)) as it:
        told = await (await it.client.get("/v1/info")).json()
        assert told["voice_samples"] == ["Ana", "Ben"] and str(tmp_path) not in json.dumps(told)
        for headers, status in (({}, 401), (bearer("ear"), 403), (bearer("caller"), 200)):
            response = await it.client.get("/v1/voices/Ana/sample", headers=headers)
            assert response.status == status
        assert response.content_type == "audio/wav" and await response.read() == b"RIFF"
        for voice in ("Ben", "Eve", "..Ana"):
            path = f"/v1/voices/{voice}/sample"
            assert (await it.client.get(path, headers=bearer("caller"))).status == 404


async def test_listening_in_takes_a_key_for_it(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, access=Access(rules=RULES)) as it:
        await offer(it, bearer("caller"))
        await it.go_live()
        [call] = it.bench.registry
        path = f"/whep/{call.ids.public}"
        sdp = {"Content-Type": "application/sdp"}
        odd = {"Authorization": "Bearer \udcff"}
        assert (await it.client.post(path, data=OFFER, headers=sdp | odd)).status == 401
        for name, status in (("caller", 403), ("boss", 403), ("ear", 201)):
            response = await it.client.post(path, data=OFFER, headers=sdp | bearer(name))
            assert response.status == status


async def test_an_address_may_ask_so_often(aiohttp_client: StartClient) -> None:
    limited = replace(RULES, offers_per_minute=2)
    async with serving(aiohttp_client, slots=8, access=Access(rules=limited)) as it:
        here = bearer("caller") | {"X-Forwarded-For": "203.0.113.9"}
        there = bearer("caller") | {"X-Forwarded-For": "198.51.100.4"}
        assert [(await offer(it, here))[0] for _ in range(3)] == [200, 200, 429]
        assert (await offer(it, there))[0] == 200
        response = await it.client.post("/api/offer", json=OFFER_BODY, headers=here)
        assert response.headers["Retry-After"] == "30"
        it.bench.clock.advance(30)
        assert (await offer(it, here))[0] == 200
        own = [(await offer(it, bearer("caller")))[0] for _ in range(3)]
        assert own == [200, 200, 200], "people on this machine are not limited"


async def test_a_header_of_a_stranger_does_not_change_its_address(
    aiohttp_client: StartClient,
) -> None:
    limited = replace(RULES, trusted_proxies=(), calls_per_address=1)
    async with serving(aiohttp_client, access=Access(rules=limited)) as it:
        statuses = [
            (await offer(it, bearer("caller") | {"X-Forwarded-For": f"203.0.113.{i}"}))[0]
            for i in range(2)
        ]
        assert statuses == [200, 429]


async def test_a_key_may_have_so_many_calls(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, access=Access(rules=RULES)) as it:
        answers = [await offer(it, bearer("two")) for _ in range(3)]
        assert [status for status, _ in answers] == [200, 200, 429]
        pc_id = str(answers[0][1]["pc_id"])
        for headers in (bearer("two"), {}):
            assert (await offer(it, headers, pc_id=pc_id))[0] == 200, "it is one of the two"
        assert (await offer(it, bearer("two"), pc_id="made-up"))[0] == 429
        assert (await offer(it, bearer("caller")))[0] == 200
        assert it.free == 1


async def test_without_keys_admin_is_for_this_machine_only(aiohttp_client: StartClient) -> None:
    for public, status in ((False, 200), (True, 401)):
        async with serving(aiohttp_client, access=Access(rules=GuardRules(public=public))) as it:
            assert (await it.client.get("/v1/calls")).status == status
            assert (await offer(it, {}))[0] == 200


async def test_ten_thousand_wrong_keys_cost_little_and_keep_nobody_out(
    aiohttp_client: StartClient,
) -> None:
    async with serving(aiohttp_client, access=Access(rules=RULES)) as it:
        app = it.client.app
        assert app is not None
        statuses = [(await offer(it, bearer(f"x{i}")))[0] for i in range(WRONG_KEYS_PER_MINUTE + 5)]
        assert set(statuses[:WRONG_KEYS_PER_MINUTE]) == {401}
        assert set(statuses[WRONG_KEYS_PER_MINUTE:]) == {429}
        began = time.process_time()
        found = [app[GUARD].keys.find(f"wrong {i}") for i in range(10_000)]
        assert set(found) == {None}
        assert time.process_time() - began < 5, "a hash and four comparisons each"
        assert (await offer(it, bearer("caller")))[0] == 200, "a right key still opens"


async def test_no_log_line_has_a_sessions_id_or_a_key(
    aiohttp_client: StartClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "signaling")
    caplog.set_level("DEBUG", "rtc_agent")
    async with serving(aiohttp_client, slots=1, access=Access(rules=RULES)) as it:
        started = await it.client.post("/start", json={}, headers=bearer("caller"))
        session = (await started.json())["sessionId"]
        assert (await offer(it, bearer("caller")))[0] == 200
        full = await it.client.post(f"/sessions/{session}/api/offer", json=OFFER_BODY)
        assert full.status == 503
        await offer(it, bearer("wrong"))
    assert "/sessions/{session}/api/offer refused" in caplog.text
    assert session not in caplog.text and "secret of" not in caplog.text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8080", 200),
        ("me.localhost", 200),
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("proxy.example", 200),
        ("rebound.example", 403),
        ("", 403),
        ("[", 403),
    ],
)
async def test_a_name_made_to_point_here_does_not_let_a_page_in(
    aiohttp_client: StartClient, host: str, status: int
) -> None:
    rules = GuardRules(hosts=("proxy.example",))
    headers = {"Host": host, "Sec-Fetch-Site": "same-origin", "Origin": f"http://{host}"}
    async with serving(aiohttp_client, access=Access(rules=rules)) as it:
        assert (await offer(it, headers))[0] == status
    async with serving(aiohttp_client, access=Access(rules=RULES)) as it:
        if host != "[":
            assert (await offer(it, headers | bearer("caller")))[0] == 200, "a key says enough"
