"""@openai/agents-realtime over WebRTC, unchanged but for its address, against the real server."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.interop.driver import Client
from tests.real_server import serving

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def of_type(type_: str) -> Any:
    return lambda event: event["type"] == type_


async def test_connect_talk_and_leave(client: Client) -> None:
    call_id = await client.do("realtime.connect", client.server.url)
    assert len(call_id) > 20
    assert await client.do("realtime.status") == "connected"
    await client.hears_sound()
    await client.reports("realtime", of_type("input_audio_buffer.speech_started"))
    await client.reports("realtime", of_type("output_audio_buffer.started"))
    delta = await client.reports("realtime", of_type("response.output_audio_transcript.delta"))
    assert "you spoke for" in delta["delta"]
    await client.reports("realtime", of_type("response.done"))
    assert (await client.log("realtime"))[0]["type"] == "session.created"

    async def remembered() -> bool:
        spoken = [
            part.get("transcript") or ""
            for item in await client.do("realtime.history")
            if item["role"] == "assistant"
            for part in item["content"]
        ]
        return any("you spoke for" in text for text in spoken)

    assert await client.until(remembered)
    errors = await client.page.evaluate("() => window.interop.realtime.errors")
    # A test machine that stalls is not what is tried here.
    assert [e for e in errors if e["error"]["code"] != "overload"] == []
    await client.do("realtime.close")
    await client.slots_return()


async def test_connecting_again_after_a_call(client: Client) -> None:
    calls = []
    for _ in range(2):
        calls.append(await client.do("realtime.connect", client.server.url))
        await client.hears_sound()
        await client.do("realtime.close")
        await client.slots_return()
    assert calls[0] != calls[1]


async def test_a_response_can_be_interrupted(client: Client) -> None:
    await client.do("realtime.connect", client.server.url)
    await client.reports("realtime", of_type("output_audio_buffer.started"))
    await client.do("realtime.interrupt")
    await client.reports("realtime", of_type("output_audio_buffer.cleared"))
    await client.do("realtime.close")
    await client.slots_return()


async def test_typed_turns_are_refused_in_words(client: Client) -> None:
    await client.do("realtime.connect", client.server.url)
    await client.do("realtime.sendMessage", "hello")
    refusal = await client.reports("realtime", of_type("error"))
    assert refusal["error"]["code"] == "unsupported"
    await client.do("realtime.close")
    await client.slots_return()


async def test_an_unknown_key_is_refused_in_words(client: Client) -> None:
    message = await client.do("realtime.connectWith", client.server.url, "ek_unknown")
    assert "401" in message and "client secret" in message


async def test_a_persona_where_the_agent_takes_none_is_an_error_event(client: Client) -> None:
    await client.do("realtime.connect", client.server.url, {"instructions": "Be brief."})
    assert await client.do("realtime.status") == "connected"
    refusal = await client.reports("realtime", of_type("error"))
    assert refusal["error"]["code"] == "invalid_persona"
    await client.do("realtime.close")
    await client.slots_return()


async def test_instructions_become_the_persona_of_an_agent_that_takes_one(
    page: Page, application: str
) -> None:
    """The SDK sends them once its channel is open: the agent begins again with them."""
    async with serving("--agent", "tiny", "--allowed-origin", application) as server:
        client = Client(page, server)
        await client.do("realtime.connect", server.url, {"instructions": "You sell boats."})
        updated = await client.reports("realtime", of_type("session.updated"))
        assert "You sell boats." in updated["session"]["instructions"]
        await client.hears_sound()
        errors = [e["error"]["code"] for e in await client.log("realtime") if e["type"] == "error"]
        assert set(errors) <= {"overload"}
        await client.do("realtime.close")
        await client.slots_return()
