"""Pages of other origins: let in if listed, kept out otherwise."""

from __future__ import annotations

import aiohttp
import pytest

from signaling.parts import Access
from tests.signaling.site import OFFER, StartClient, serving

APP = "https://app.example"
SDP = {"Content-Type": "application/sdp"}
PREFLIGHT = {
    "Origin": APP,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-openai-agents-sdk",
}


@pytest.mark.parametrize("allowed", [(APP,), (APP + "/",), ("*",)])
async def test_a_listed_origin_may_do_everything(
    aiohttp_client: StartClient, allowed: tuple[str, ...]
) -> None:
    async with serving(aiohttp_client, access=Access(allowed_origins=allowed)) as it:
        asked = await it.client.options("/v1/realtime/calls", headers=PREFLIGHT)
        assert asked.status == 204
        assert asked.headers["Access-Control-Allow-Origin"] == APP
        assert "x-openai-agents-sdk" in asked.headers["Access-Control-Allow-Headers"]
        assert "PATCH" in asked.headers["Access-Control-Allow-Methods"]
        headers = SDP | {"Origin": APP}
        placed = await it.client.post("/v1/realtime/calls", data=OFFER, headers=headers)
        assert placed.status == 201
        assert placed.headers["Access-Control-Allow-Origin"] == APP
        assert "Location" in placed.headers["Access-Control-Expose-Headers"]
        assert "Origin" in placed.headers.getall("Vary")


async def test_its_errors_can_be_read_too(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, access=Access(allowed_origins=(APP,))) as it:
        refused = await it.client.post("/whip", data="x", headers=SDP | {"Origin": APP})
        assert refused.status == 400
        assert refused.headers["Access-Control-Allow-Origin"] == APP


@pytest.mark.parametrize("path", ["/api/offer", "/whip", "/v1/realtime/calls", "/start"])
async def test_any_other_origin_places_no_call(aiohttp_client: StartClient, path: str) -> None:
    async with serving(aiohttp_client, access=Access(allowed_origins=(APP,))) as it:
        headers = SDP | {"Origin": "https://evil.example"}
        response = await it.client.post(path, data=OFFER, headers=headers)
        assert response.status == 403
        assert (await response.json())["error"]["code"] == "origin_not_allowed"
        assert "Access-Control-Allow-Origin" not in response.headers
        assert not it.transports


async def test_another_origins_websocket_is_refused(aiohttp_client: StartClient) -> None:
    """Browsers ask nobody before they open one."""
    async with serving(aiohttp_client) as it:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await it.client.ws_connect("/api/chat", headers={"Origin": "https://evil.example"})
        assert refusal.value.status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://agent.example", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://agent.example", "X-Forwarded-Host": "agent.example"},
    ],
)
async def test_the_servers_own_page_and_clients_without_a_page_need_no_list(
    aiohttp_client: StartClient, headers: dict[str, str]
) -> None:
    async with serving(aiohttp_client) as it:
        response = await it.client.post("/whip", data=OFFER, headers=SDP | headers)
        assert response.status == 201


async def test_its_own_origin_by_its_host(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        own = str(it.client.make_url("/")).rstrip("/")
        response = await it.client.post("/whip", data=OFFER, headers=SDP | {"Origin": own})
        assert response.status == 201


@pytest.mark.parametrize("origin", ["null", "https://[", "", "x" * 3000])
async def test_odd_origins_are_others(aiohttp_client: StartClient, origin: str) -> None:
    async with serving(aiohttp_client) as it:
        response = await it.client.post("/whip", data=OFFER, headers=SDP | {"Origin": origin})
        assert response.status == 403
