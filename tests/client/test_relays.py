"""Which of a server's ICE servers a caller that may only be relayed uses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from rtc_agent.client.relays import ice_for
from rtc_agent.errors import CallRefused, ConfigError
from rtc_agent.media.ice import IceServer, IceSettings

INFO: dict[str, Any] = {
    "needs_key": False,
    "ice_servers": [
        {"urls": "stun:stun.example:3478"},
        {
            "urls": [
                "turn:turn.example",
                "turn:turn.example:80?transport=tcp",
                "turns:turn.example:443?transport=tcp",
            ],
            "username": "until:caller",
            "credential": "hash",
        },
        {"urls": "turn:other.example?transport=udp"},
    ],
}


@pytest_asyncio.fixture
async def url() -> AsyncIterator[str]:
    app = web.Application()

    async def info(_: web.Request) -> web.Response:
        return web.json_response(INFO)

    async def hidden(_: web.Request) -> web.Response:
        return web.json_response({"needs_key": True, "ice_servers": []})

    app.router.add_get("/v1/info", info)
    app.router.add_get("/keys/v1/info", hidden)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("way", "servers"),
    [
        (
            "udp",
            (
                IceServer(("turn:turn.example",), "until:caller", "hash"),
                IceServer(("turn:other.example?transport=udp",)),
            ),
        ),
        ("tcp", (IceServer(("turn:turn.example:80?transport=tcp",), "until:caller", "hash"),)),
        ("tls", (IceServer(("turns:turn.example:443?transport=tcp",), "until:caller", "hash"),)),
    ],
)
async def test_only_relays_reached_in_that_way_are_used(
    url: str, way: str, servers: tuple[IceServer, ...]
) -> None:
    assert await ice_for(url, None, way) == IceSettings(servers=servers, relay_only=True)


async def test_without_a_relay_local_addresses_are_offered() -> None:
    assert await ice_for("http://nobody.invalid", ["192.0.2.1"], None) == IceSettings(
        hosts=("192.0.2.1",)
    )


async def test_what_cannot_be_is_said(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="--ice-host"):
        await ice_for(url, ["192.0.2.1"], "udp")
    with pytest.raises(ConfigError, match="udp, tcp or tls, not by 'pigeon'"):
        await ice_for(url, None, "pigeon")
    monkeypatch.setitem(INFO, "ice_servers", INFO["ice_servers"][:1])
    with pytest.raises(CallRefused, match="no TURN relay that is reached by tls"):
        await ice_for(url, None, "tls")
    with pytest.raises(CallRefused, match="RTC_AGENT_KEY"):
        await ice_for(f"{url}/keys", None, "udp")
