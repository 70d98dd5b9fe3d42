"""Moshi's web page's own codec, opus-recorder, in Chromium, over `/api/chat`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.driver import Client

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
