"""@pipecat-ai/client-js with the SmallWebRTC transport, unchanged, against the real server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.driver import Client

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def named(name: str) -> Any:
    return lambda entry: entry[0] == name


async def test_connect_talk_and_leave(client: Client) -> None:
    ready = await client.do("pipecat.connect", client.server.url)
    assert ready["version"] == "2.1.0"
    assert ready["about"]["agent"] == "echo"
    await client.hears_sound()
    await client.reports("pipecat", named("onUserStartedSpeaking"))
    await client.reports("pipecat", named("onBotStartedSpeaking"))
    _, text = await client.reports("pipecat", named("onBotTtsText"))
    assert "you spoke for" in text["text"]
    _, output = await client.reports("pipecat", named("onBotOutput"))
    assert output["spoken_status"] == "completed" and output["segment_id"] >= 1
    assert await client.reports(
        "pipecat", lambda e: e[0] == "onServerMessage" and e[1]["type"] == "stats"
    )
    await client.do("pipecat.disconnect")
    await client.slots_return()
    errors = [e[1]["data"] for e in await client.log("pipecat") if e[0] == "onError"]
    assert not [error for error in errors if error["fatal"]]


async def test_start_gives_a_session_that_the_offer_goes_to(client: Client) -> None:
    ready = await client.do("pipecat.startAndConnect", client.server.url, {"greedy": True})
    assert ready["about"]["call_id"]
    await client.hears_sound()
    await client.do("pipecat.disconnect")
    await client.slots_return()


async def test_keys_and_requests_are_answered(client: Client) -> None:
    await client.do("pipecat.connect", client.server.url)
    await client.do("pipecat.sendDtmf", "12#")
    _, notice = await client.reports(
        "pipecat", lambda e: e[0] == "onServerMessage" and e[1].get("code") == "dtmf"
    )
    assert notice["digits"] == "12#"
    refused = await client.do("pipecat.request", "weather", {"where": "here"})
    assert "No client message" in str(refused["error"])
    served = await client.do("pipecat.request", "audio-levels", {"enabled": True})
    assert served["answer"] == {"enabled": True}
    await client.do("pipecat.sendText", "hello")
    assert await client.reports("pipecat", named("onMessageError"))
    await client.do("pipecat.disconnect")
    await client.slots_return()


async def test_a_lost_connection_is_taken_up_again_by_the_same_call(client: Client) -> None:
    ready = await client.do("pipecat.connect", client.server.url)
    before = await client.do("pipecat.callId")
    await client.hears_sound()
    await client.do("pipecat.reconnect")
    await client.do("pipecat.refreshMicrophone")
    await client.hears_sound()
    assert await client.do("pipecat.callId") == before
    slots = (await client.server.info())["slots"]
    assert slots["free"] == slots["total"] - 1, "the same call, not another"
    assert ready["about"]["call_id"]
    heard = len([e for e in await client.log("pipecat") if e[0] == "onBotTtsText"])

    async def more() -> bool:
        now = [e for e in await client.log("pipecat") if e[0] == "onBotTtsText"]
        return len(now) > heard

    assert await client.until(more)
    await client.do("pipecat.disconnect")
    await client.slots_return()


async def test_the_same_connection_can_be_offered_anew(client: Client) -> None:
    await client.do("pipecat.connect", client.server.url)
    await client.hears_sound()
    before = await client.do("pipecat.callId")
    await client.do("pipecat.renegotiate")
    assert await client.do("pipecat.callId") == before
    earlier = (await client.do("sound.latest"))["packets"]

    async def goes_on() -> bool:
        return bool((await client.do("sound.latest"))["packets"] > earlier + 50)

    assert await client.until(goes_on)
    await client.do("pipecat.disconnect")
    await client.slots_return()


async def test_the_bot_can_be_sent_away(client: Client) -> None:
    await client.do("pipecat.connect", client.server.url)
    await client.do("pipecat.disconnectBot")
    await client.reports("pipecat", named("onBotDisconnected"))
    await client.slots_return()
    await client.do("pipecat.disconnect")


async def test_a_client_of_rtvi_1_is_spoken_to_in_its_version(
    client: Client, application: str
) -> None:
    """@pipecat-ai/client-js 1.4.0 with its transport 1.6.1."""
    await client.page.goto(f"{application}/page-rtvi1")
    ready = await client.do("pipecat.connect", client.server.url)
    assert ready["version"].startswith("1.")
    await client.hears_sound()
    _, text = await client.reports("pipecat", named("onBotTtsText"))
    assert "you spoke for" in text["text"]
    await client.reports("pipecat", named("onBotTranscript"))
    await client.reports("pipecat", named("onUserStoppedSpeaking"))
    await client.do("pipecat.disconnect")
    await client.slots_return()
