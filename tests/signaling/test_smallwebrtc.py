"""`/start`, sessions, moved and repeated offers."""

from __future__ import annotations

from typing import Any

import pytest

from rtc_agent.engine.stepper import SessionSpec
from rtc_agent.errors import UnknownVoice
from signaling.smallwebrtc import START_TTL_S
from tests.engine.fakes import FakeStepper
from tests.signaling.site import ANSWER, OFFER, StartClient, serving

START = {"transport": "webrtc", "enableDefaultIceServers": True, "body": {"voice": "V"}}
"""As @pipecat-ai/client-js sends it."""


def offer(**fields: Any) -> dict[str, Any]:
    return {"sdp": OFFER, "type": "offer", "pc_id": None, "restart_pc": False, **fields}


async def test_a_started_sessions_offer_is_a_call_with_what_start_was_told(
    aiohttp_client: StartClient,
) -> None:
    stepper = FakeStepper()
    async with serving(aiohttp_client, stepper=stepper) as it:
        started = await (await it.client.post("/start", json=START)).json()
        assert len(started["sessionId"]) > 20
        assert started["iceConfig"]["iceServers"][0]["username"] == "u"
        url = f"/sessions/{started['sessionId']}/api/offer"
        answer = await (await it.client.post(url, json=offer())).json()
        assert answer["sdp"] == ANSWER and answer["type"] == "answer"
        await it.bench.run(0.1)
        assert stepper.specs[-1].voice == "V"
        trickled = await it.client.patch(
            url, json={"pc_id": answer["pc_id"], "candidates": [{"candidate": "x", "sdp_mid": "0"}]}
        )
        assert await trickled.json() == {"status": "success"}
        assert it.transports[0].candidates == [("x", "0")]


async def test_an_offers_own_wishes_come_before_those_of_start(
    aiohttp_client: StartClient,
) -> None:
    stepper = FakeStepper()
    async with serving(aiohttp_client, stepper=stepper) as it:
        started = await (await it.client.post("/start", json=START)).json()
        url = f"/sessions/{started['sessionId']}/api/offer"
        await it.client.post(url, json=offer(requestData={"persona": "P"}))
        await it.bench.run(0.1)
        assert stepper.specs[-1] == SessionSpec(persona="P")


async def test_a_choice_beside_the_body_of_start_is_refused_instead_of_ignored(
    aiohttp_client: StartClient,
) -> None:
    async with serving(aiohttp_client) as it:
        response = await it.client.post("/start", json={"voice": "x", "body": {}})
        assert response.status == 400
        assert "voice beside body" in (await response.json())["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"{}"])
async def test_start_may_say_nothing(aiohttp_client: StartClient, body: bytes) -> None:
    async with serving(aiohttp_client) as it:
        assert (await it.client.post("/start", data=body)).status == 200


@pytest.mark.parametrize(
    "body", [{"transport": "daily"}, {"body": {"seed": -1}}, {"body": 3}, [], "x"]
)
async def test_a_start_that_cannot_be_is_refused_where_clients_look(
    aiohttp_client: StartClient, body: Any
) -> None:
    async with serving(aiohttp_client) as it:
        response = await it.client.post("/start", json=body)
        assert response.status == 400
        told = await response.json()
        assert told["info"] == told["error"]["message"]


async def test_a_voice_that_does_not_exist_is_refused_at_start(
    aiohttp_client: StartClient,
) -> None:
    class Voiceless(FakeStepper):
        def check(self, spec: SessionSpec) -> None:
            raise UnknownVoice("There is no such voice.")

    async with serving(aiohttp_client, stepper=Voiceless()) as it:
        assert (await it.client.post("/start", json=START)).status == 400


async def test_a_session_waits_for_its_offer_and_then_lasts_as_long_as_its_call(
    aiohttp_client: StartClient,
) -> None:
    async with serving(aiohttp_client) as it:
        late = (await (await it.client.post("/start", json={})).json())["sessionId"]
        used = (await (await it.client.post("/start", json={})).json())["sessionId"]
        answer = await (await it.client.post(f"/sessions/{used}/api/offer", json=offer())).json()
        await it.go_live()
        it.bench.clock.advance(START_TTL_S + 1)
        it.transports[0].hear()
        assert (await it.client.post(f"/sessions/{late}/api/offer", json=offer())).status == 404
        again = offer(pc_id=answer["pc_id"], restart_pc=True)
        assert (await it.client.post(f"/sessions/{used}/api/offer", json=again)).status == 200


async def test_restart_moves_the_call_to_a_new_connection(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, slots=1) as it:
        answer = await (await it.client.post("/api/offer", json=offer())).json()
        await it.go_live()
        again = offer(pc_id=answer["pc_id"], restart_pc=True)
        moved = await (await it.client.post("/api/offer", json=again)).json()
        assert moved["pc_id"] == answer["pc_id"]
        assert len(it.transports) == 2 and len(it.bench.registry) == 1
        await it.go_live()
        assert it.transports[0].closed == 1 and it.transports[1].played


async def test_restart_of_a_call_that_is_over_is_a_new_call(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        response = await it.client.post("/api/offer", json=offer(pc_id="gone", restart_pc=True))
        assert response.status == 200
        assert (await response.json())["pc_id"] != "gone"
        await it.go_live()
        it.transports[0].events.on_channel("text")
        assert [n["code"] for n in it.transports[0].of("notice")] == ["new_conversation"]
        await it.client.post("/api/offer", json=offer())
        await it.go_live()
        it.transports[1].events.on_channel("text")
        assert not it.transports[1].of("notice"), "who begins one is told nothing"


async def test_the_same_connection_offered_anew(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        answer = await (await it.client.post("/api/offer", json=offer())).json()
        again = await it.client.post("/api/offer", json=offer(pc_id=answer["pc_id"]))
        assert (await again.json())["sdp"] == "v=0\r\nagain\r\n"
        assert len(it.transports) == 1
        other = offer(pc_id=answer["pc_id"], sdp=OFFER + "restart")
        refused = await it.client.post("/api/offer", json=other)
        assert refused.status == 409
