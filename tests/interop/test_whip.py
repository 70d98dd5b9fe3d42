"""whip-whep in Chromium: publishing both ways, publishing only, listening in."""

from __future__ import annotations

import re

import pytest

from tests.interop.conftest import LISTEN_TOKEN
from tests.interop.driver import Client

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def connected(client: Client, which: str) -> None:
    async def look() -> bool:
        return bool((await client.do("whip.states"))[which] == "connected")

    await client.until(look)


async def test_a_call_both_ways_another_path_for_it_and_another_call(client: Client) -> None:
    for restarted in (True, False):
        session = await client.do("whip.publish", client.server.url, "sendrecv")
        assert session["etag"].startswith('"')
        await connected(client, "publishing")
        assert await client.do("whip.direction") == "sendrecv"
        await client.hears_sound()
        if restarted:
            await expect_restart(client, session["etag"])
        await client.do("whip.unpublish")
        await client.slots_return()


async def test_publishing_only_and_a_supervisor_who_listens(client: Client) -> None:
    await client.do("whip.publish", client.server.url, "sendonly")
    await connected(client, "publishing")
    assert await client.do("whip.direction") == "sendonly"
    call_id = await client.until(lambda: newest_call(client))
    assert "401" in await client.do("whip.listen", client.server.url, call_id, "wrong")
    said = await client.do("whip.listen", client.server.url, call_id, LISTEN_TOKEN)
    assert said == "listening"
    await connected(client, "listening")
    await client.hears_sound()
    await client.do("whip.unlisten")
    await client.do("whip.unpublish")
    await client.slots_return()


async def expect_restart(client: Client, etag: str) -> None:
    """ICE is restarted, and sound comes over the path that it found."""
    before = await client.do("whip.path")
    assert await client.do("whip.restart") not in (etag, None)

    async def moved() -> bool:
        return await client.do("whip.path") not in (before, None)

    await client.until(moved)
    heard = (await client.do("sound.latest"))["packets"]

    async def goes_on() -> bool:
        return bool((await client.do("sound.latest"))["packets"] > heard + 50)

    await client.until(goes_on)
    assert "ICE was restarted" in client.server.log
    await connected(client, "publishing")


async def newest_call(client: Client) -> str | None:
    """The public id of the call that went live last, as the log has it."""
    ids = re.findall(r"\[(call-\w+)\] live after", client.server.log)
    return ids[-1] if ids else None
