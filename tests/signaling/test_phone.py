"""The phone line over HTTP: who may, what it does, and what it says of what cannot be."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from signaling.errors import answer_errors
from signaling.phone import add_phone_routes
from tests.telephony.fakes import FakeBench, fake_bench

TOKEN = {"Authorization": "Bearer right"}
Client = TestClient[web.Request, web.Application]


@contextlib.asynccontextmanager
async def site(folder: Path, token: str = "right") -> AsyncIterator[tuple[Client, FakeBench]]:
    async with fake_bench(folder, outgoing=["sip:*@example.org"], lines=1) as bench:
        app = web.Application(middlewares=[answer_errors])
        add_phone_routes(app, bench.line, token)
        async with TestClient(TestServer(app)) as client:
            yield client, bench


async def post(client: Client, path: str, **body: Any) -> tuple[int, Any]:
    async with client.post(path, json=body, headers=TOKEN) as response:
        text = await response.read()
        return response.status, await response.json() if text else None


async def test_nobody_may_without_the_token(tmp_path: Path) -> None:
    for token, given in (("right", "wrong"), ("right", ""), ("", ""), ("", "right")):
        async with site(tmp_path, token) as (client, bench):
            headers = {"Authorization": f"Bearer {given}"} if given else {}
            for path in ("/v1/phone", "/v1/phone/calls"):
                assert (await client.get(path, headers=headers)).status == 401
            body = {"uri": "sip:bob@example.org"}
            assert (await client.post("/v1/phone/calls", json=body, headers=headers)).status == 401
            assert not bench.all("call")


async def test_a_call_is_made_shown_and_ended(tmp_path: Path) -> None:
    async with site(tmp_path) as (client, bench):
        status, call = await post(
            client, "/v1/phone/calls", uri="sip:bob@example.org", persona="A poet."
        )
        assert status == 201 and call["state"] == "ringing"
        assert bench.agents.legs[0].rule.persona == "A poet."
        request = await bench.asked("call")
        await bench.fake.sip(request["handle_id"], "accepted", request["body"]["call_id"])
        await bench.fake.wait_for(lambda: bench.agents.legs[0].started)
        path = f"/v1/phone/calls/{call['id']}"
        assert (await (await client.get(path, headers=TOKEN)).json())["state"] == "talking"
        status, refused = await post(client, "/v1/phone/calls", uri="sip:eve@example.org")
        assert status == 503 and refused["error"]["code"] == "server_full"
        assert (await post(client, f"{path}/hold"))[0] == 204
        assert (await post(client, f"{path}/resume"))[0] == 204
        assert (await post(client, f"{path}/keys", keys="12#"))[0] == 204
        assert [r["body"]["digit"] for r in bench.all("dtmf_info")] == ["1", "2", "#"]
        assert (await post(client, f"{path}/transfer", uri="sip:x@example.org"))[0] == 202
        assert (await post(client, f"{path}/transfer", uri="sip:x@evil.org"))[0] == 403
        line = await (await client.get("/v1/phone", headers=TOKEN)).json()
        assert line == {"ready": True, "detail": "", "calls": 1, "lines": 1}
        assert (await client.delete(path, headers=TOKEN)).status == 204
        await bench.asked("hangup")
        assert (await client.get(path, headers=TOKEN)).status == 404
        calls = await (await client.get("/v1/phone/calls", headers=TOKEN)).json()
        assert calls == {"calls": []}


async def test_what_cannot_be_called_is_refused_in_words(tmp_path: Path) -> None:
    async with site(tmp_path) as (client, bench):
        for body, expected in (
            ({"uri": "sip:bob@evil.org"}, 403),
            ({"uri": "tel:110"}, 400),
            ({"uri": "sip:a@example.org\r\nX: y"}, 400),
            ({}, 400),
            ({"uri": "sip:a@example.org", "spoof": 1}, 400),
        ):
            status, answer = await post(client, "/v1/phone/calls", **body)
            assert status == expected, answer
            assert answer["error"]["message"]
        assert not bench.all("call") and not bench.agents.legs
