"""The Realtime routes: both forms of an offer, both generations, secrets, hanging up."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from rtc_agent.engine.stepper import SessionSpec
from rtc_agent.errors import InvalidPersona
from tests.engine.fakes import FakeStepper
from tests.signaling.site import ANSWER, OFFER, Site, StartClient, serving

SDP = {"Content-Type": "application/sdp"}


async def events_of(it: Site) -> list[dict[str, Any]]:
    """What the newest call's `oai-events` channel is told once it opens."""
    transport = it.transports[-1]
    transport.events.on_channel("oai-events")
    await it.go_live()
    return transport.sent


async def test_an_sdp_offer_is_a_call(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        response = await it.client.post(
            "/v1/realtime/calls?model=gpt-realtime", data=OFFER, headers=SDP
        )
        assert response.status == 201
        assert response.content_type == "application/sdp"
        assert await response.text() == ANSWER
        assert response.headers["Location"].startswith("/v1/realtime/calls/")
        (created, *_) = await events_of(it)
        assert created["type"] == "session.created"
        assert created["session"]["model"] == "gpt-realtime"
        assert created["session"]["type"] == "realtime"


async def test_multipart_carries_the_session(aiohttp_client: StartClient) -> None:
    stepper = FakeStepper()
    async with serving(aiohttp_client, stepper=stepper) as it:
        form = aiohttp.FormData(default_to_multipart=True)
        form.add_field("sdp", OFFER, content_type="application/sdp")
        session = {
            "type": "realtime",
            "instructions": "Be kind.",
            "audio": {"output": {"voice": "NATF2"}},
        }
        form.add_field("session", json.dumps(session), content_type="application/json")
        response = await it.client.post("/v1/realtime/calls", data=form)
        assert response.status == 201
        await it.bench.run(0.1)
        assert stepper.specs[-1] == SessionSpec(voice="NATF2", persona="Be kind.")
        assert it.transports[-1].offer == OFFER


@pytest.mark.parametrize("beta_header", [True, False])
async def test_the_beta_form_speaks_the_older_names(
    aiohttp_client: StartClient, beta_header: bool
) -> None:
    async with serving(aiohttp_client) as it:
        path = "/v1/realtime/calls" if beta_header else "/v1/realtime"
        headers = SDP | ({"OpenAI-Beta": "realtime=v1"} if beta_header else {})
        assert (await it.client.post(path, data=OFFER, headers=headers)).status == 201
        (created, *_) = await events_of(it)
        assert "modalities" in created["session"]


async def test_a_client_secret_carries_its_session(aiohttp_client: StartClient) -> None:
    stepper = FakeStepper()
    async with serving(aiohttp_client, stepper=stepper) as it:
        wanted = {"session": {"type": "realtime", "instructions": "Be kind."}}
        made = await it.client.post("/v1/realtime/client_secrets", json=wanted)
        assert made.status == 200 and made.headers["Cache-Control"] == "no-store"
        secret = await made.json()
        assert secret["value"].startswith("ek_") and len(secret["value"]) > 30
        assert secret["session"]["instructions"] == "Be kind."
        bearer = SDP | {"Authorization": f"Bearer {secret['value']}"}
        response = await it.client.post("/v1/realtime/calls", data=OFFER, headers=bearer)
        assert response.status == 201
        await it.bench.run(0.1)
        assert stepper.specs[-1].persona == "Be kind."
        it.bench.clock.advance(601)
        response = await it.client.post("/v1/realtime/calls", data=OFFER, headers=bearer)
        assert response.status == 401
        assert "client secret" in (await response.json())["error"]["message"]


async def test_the_betas_secret(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        response = await it.client.post("/v1/realtime/sessions", json={"voice": "alloy"})
        body = await response.json()
        assert body["client_secret"]["value"].startswith("ek_")
        assert body["object"] == "realtime.session"


async def test_other_keys_are_let_in(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        headers = SDP | {"Authorization": "Bearer sk-whatever"}
        response = await it.client.post("/v1/realtime/calls", data=OFFER, headers=headers)
        assert response.status == 201


async def test_hanging_up_by_its_location(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        placed = await it.client.post("/v1/realtime/calls", data=OFFER, headers=SDP)
        url = f"{placed.headers['Location']}/hangup"
        assert (await it.client.post(url)).status == 200
        await it.bench.run(1)
        assert it.free == 4 and len(it.bench.registry) == 0
        again = await it.client.post(url)
        assert again.status == 404
        assert (await again.json())["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("data", "headers", "status"),
    [
        (b"", SDP, 400),
        (b"hello", SDP, 400),
        (b"\xff\xfe", SDP, 400),
        (b"v=0 unsupported", SDP, 422),
        (OFFER.encode(), {"Content-Type": "application/json"}, 415),
        (b"v=0" + b"x" * 70_000, SDP, 400),
        (b"x" * 300_000, SDP, 413),
        (b"junk", {"Content-Type": "multipart/form-data"}, 400),
        (b"junk", {"Content-Type": "multipart/form-data; boundary=b"}, 400),
        (
            b'--b\r\nContent-Disposition: form-data; name="\x01"\r\n\r\n{}\r\n--b--\r\n',
            {"Content-Type": "multipart/form-data; boundary=b"},
            400,
        ),
        (
            b"--b\r\nContent-Type: text/x; charset=none\r\n"
            b'Content-Disposition: form-data; name="sdp"\r\n\r\nv=0\r\n--b--\r\n',
            {"Content-Type": "multipart/form-data; boundary=b"},
            400,
        ),
        (
            b'--b\r\nContent-Disposition: form-data; name="session"\r\n\r\n{}\r\n--b--\r\n',
            {"Content-Type": "multipart/form-data; boundary=b"},
            400,
        ),
    ],
)
async def test_a_malformed_offer_is_refused_in_their_shape(
    aiohttp_client: StartClient, data: bytes, headers: dict[str, str], status: int
) -> None:
    async with serving(aiohttp_client) as it:
        response = await it.client.post("/v1/realtime/calls", data=data, headers=headers)
        assert response.status == status
        assert (await response.json())["error"]["message"]
        await it.bench.run(0.5)
        assert it.free == 4


@pytest.mark.parametrize("session", ["[]", "{", '{"type": "transcription"}', '{"audio": 1}'])
async def test_a_session_that_is_none_is_refused(aiohttp_client: StartClient, session: str) -> None:
    async with serving(aiohttp_client) as it:
        form = aiohttp.FormData({"sdp": OFFER, "session": session}, default_to_multipart=True)
        response = await it.client.post("/v1/realtime/calls", data=form)
        assert response.status == 400
        assert (await response.json())["error"]["param"] is None


async def test_a_full_server_says_when_to_come_back(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, slots=1) as it:
        await it.client.post("/v1/realtime/calls", data=OFFER, headers=SDP)
        response = await it.client.post("/v1/realtime/calls", data=OFFER, headers=SDP)
        assert response.status == 503
        assert int(response.headers["Retry-After"]) > 0
        assert (await response.json())["error"]["type"] == "server_error"


@pytest.mark.parametrize(
    "body",
    [{"expires_after": {"anchor": "created_at", "seconds": 5}}, {"session": []}, []],
)
async def test_a_secret_that_cannot_be_made(aiohttp_client: StartClient, body: Any) -> None:
    async with serving(aiohttp_client) as it:
        response = await it.client.post("/v1/realtime/client_secrets", json=body)
        assert response.status == 400


async def test_a_persona_that_cannot_be_is_refused_when_the_secret_is_made(
    aiohttp_client: StartClient,
) -> None:
    class Plain(FakeStepper):
        def check(self, spec: SessionSpec) -> None:
            if spec.persona:
                raise InvalidPersona("This agent takes no persona.")

    async with serving(aiohttp_client, stepper=Plain()) as it:
        body = {"session": {"instructions": "Be kind."}}
        response = await it.client.post("/v1/realtime/client_secrets", json=body)
        assert response.status == 400
