"""Moshi's web page's own codec, opus-recorder, in Chromium, over `/api/chat`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from tests.interop.driver import Client
from tests.real_server import RealServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

QUERY = "text_temperature=0.7&text_topk=25&audio_temperature=0.8&audio_topk=250&pad_mult=0&email="


async def test_the_page_hears_the_agent_and_reads_what_it_says(client: Client) -> None:
    await client.page.mouse.click(5, 5)  # Sound starts with a person's act.
    await client.do("moshi.connect", client.server.url, QUERY)
    _, text = await client.reports("moshi", lambda entry: entry[0] == "text")
    assert "you spoke for" in text

    async def heard() -> Any:
        sound = await client.page.evaluate("() => window.interop.moshi.heard")
        return sound if sound["energy"] > 1 else None

    sound = await client.until(heard)
    assert sound["samples"] > 24_000
    await client.do("moshi.close")
    await client.slots_return()
    assert not [entry for entry in await client.log("moshi") if entry[0] == "kind"]


async def test_a_client_that_was_cut_off_comes_back_to_its_call(server: RealServer) -> None:
    async with aiohttp.ClientSession() as http:
        ws = await http.ws_connect(f"{server.url}/api/chat?resumable=1")
        handshake, metadata = [await ws.receive_bytes(timeout=10) for _ in range(2)]
        assert (handshake[0], metadata[0]) == (0, 4)
        connection = ws._response.connection
        assert connection is not None and connection.transport is not None
        connection.transport.close()
        async with asyncio.timeout(10):
            while await states(http, server) != ["reconnecting"]:
                await asyncio.sleep(0.05)
        session = json.loads(metadata[1:])["session_id"]
        ws = await http.ws_connect(f"{server.url}/api/chat?session_id={session}")
        kinds = [(await ws.receive_bytes(timeout=10))[0] for _ in range(8)]
        assert kinds[:2] == [0, 4] and 1 in kinds
        assert await states(http, server) == ["live"]
        await ws.close()
        async with asyncio.timeout(10):
            while await states(http, server):
                await asyncio.sleep(0.05)


async def states(http: aiohttp.ClientSession, server: RealServer) -> list[str]:
    """Of the calls in progress."""
    async with http.get(f"{server.url}/v1/calls") as response:
        return [call["state"] for call in (await response.json())["calls"]]
