"""`/v1/calls` and `/metrics` of one process."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from rtc_agent.errors import ServerFull
from tests.signaling.site import OFFER, Site, StartClient, serving

BODY = {"sdp": OFFER, "type": "offer"}


async def sample(it: Site, name: str, **labels: str) -> float | None:
    response = await it.client.get("/metrics")
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/plain")
    for family in text_string_to_metric_families(await response.text()):
        for found in family.samples:
            if found.name == name and found.labels == labels:
                return found.value
    return None


async def test_calls_are_listed_seen_and_ended(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        await it.client.post("/api/offer", json=BODY)
        await it.go_live()
        listed = await (await it.client.get("/v1/calls")).json()
        [call] = listed["calls"]
        assert call["state"] == "live" and call["quality"]["packets_received"] == 7
        assert call["address"] == "127.0.0.1" and call["after_s"]["live"] is not None
        assert "text" not in str(call) and "session" not in str(call)
        path = f"/v1/calls/{call['call_id']}"
        assert (await (await it.client.get(path)).json())["call_id"] == call["call_id"]
        assert (await it.client.delete(path)).status == 204
        assert (await it.client.delete(path)).status == 404
        await it.bench.run(0.2)
        assert it.free == 4


async def test_figures_follow_a_call(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, slots=1) as it:
        await it.client.post("/api/offer", json=BODY)
        await it.go_live()
        assert await sample(it, "rtc_agent_calls", state="live") == 1
        assert await sample(it, "rtc_agent_engine_slots_free") == 0
        refused = await it.client.post("/api/offer", json=BODY)
        assert refused.status == 503
        assert await sample(it, "rtc_agent_refusals_total", reason=ServerFull.code) == 1
        [call] = it.bench.registry
        await it.client.delete(f"/v1/calls/{call.ids.public}")
        assert await sample(it, "rtc_agent_calls_ended_total", reason="ended_by_operator") == 1
        assert await sample(it, "rtc_agent_call_stage_seconds_count", stage="live") == 1
        assert await sample(it, "rtc_agent_call_loss_ratio_count") == 1
        steps = await sample(it, "rtc_agent_engine_step_seconds_count")
        assert steps and steps == await sample(it, "rtc_agent_engine_ticks_total")
        assert await sample(it, "rtc_agent_engine_step_seconds_bucket", le="+Inf") == steps


async def test_readiness_is_a_figure_too_and_counters_begin_at_zero(
    aiohttp_client: StartClient,
) -> None:
    async with serving(aiohttp_client) as it:
        assert await sample(it, "rtc_agent_ready") == 1
        assert await sample(it, "rtc_agent_refusals_total", reason=ServerFull.code) == 0
        assert await sample(it, "rtc_agent_recordings_total", outcome="failed") == 0
        assert await sample(it, "rtc_agent_calls_ended_total", reason="agent_failed") == 0
        assert await sample(it, "rtc_agent_call_stage_seconds_count", stage="live") == 0
        await it.bench.registry.drain(0)
        assert (await it.client.get("/readyz")).status == 503
        assert await sample(it, "rtc_agent_ready") == 0


async def test_a_refused_offer_is_no_call_that_ended(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        await it.client.post("/api/offer", json={"sdp": "garbage", "type": "offer"})
        assert await sample(it, "rtc_agent_refusals_total", reason="invalid_offer") == 1
        assert await sample(it, "rtc_agent_calls_ended_total", reason="refused") is None
