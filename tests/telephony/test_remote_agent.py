"""Legs on other servers, over WHIP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rtc_agent.call.state import EndReason
from rtc_agent.errors import ConfigError, EngineFailed, InvalidOffer, ServerFull, UnsupportedOffer
from rtc_agent.telephony.config import DialRule
from rtc_agent.telephony.remote_agent import RemoteAgents
from tests.telephony.fakes import ANSWER

OFFER = ANSWER.replace("SAVPF 0", "SAVPF 0 8 9")


class Owner:
    def __init__(self) -> None:
        self.ended: list[EndReason] = []

    def on_leg_ended(self, reason: EndReason) -> None:
        self.ended.append(reason)

    def on_key(self, key: str) -> None:
        pass


@dataclass
class Whip:
    """A WHIP server that answers as it is told."""

    status: int = 201
    offers: list[str] = field(default_factory=list)
    queries: list[dict[str, str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    url: str = ""

    async def post(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/sdp"
        self.offers.append(await request.text())
        self.queries.append(dict(request.query))
        self.keys.append(request.headers.get("Authorization", ""))
        headers = {"Location": "/whip/s1"} if self.status == 201 else {}
        return web.Response(status=self.status, text=ANSWER, headers=headers)

    async def delete(self, request: web.Request) -> web.Response:
        self.deleted.append(request.path)
        self.keys.append(request.headers.get("Authorization", ""))
        return web.Response()


@contextlib.asynccontextmanager
async def whip(status: int = 201) -> AsyncIterator[Whip]:
    fake = Whip(status)
    app = web.Application()
    app.router.add_post("/whip", fake.post)
    app.router.add_delete("/whip/{id}", fake.delete)
    async with TestServer(app) as server:
        fake.url = str(server.make_url("/"))
        yield fake


@contextlib.asynccontextmanager
async def agents_on(*servers: str) -> AsyncIterator[RemoteAgents]:
    agents = RemoteAgents(servers, ("G722", "PCMU"))
    try:
        yield agents
    finally:
        await agents.aclose()


async def test_a_leg_is_a_session_that_its_end_deletes() -> None:
    owner = Owner()
    async with whip() as server, agents_on(server.url) as agents:
        leg = await agents.answer(OFFER, DialRule(voice="NATF0", persona="A poet"), owner, 20)
        assert leg.sdp == ANSWER and leg.report().codec == "PCMU"
        assert " 9\r\n" in server.offers[0] and " 0 8 9" not in server.offers[0]
        assert server.queries == [{"voice": "NATF0", "persona": "A poet"}]
        await leg.prepared()
        leg.end(EndReason.PEER_CLOSED)
        leg.end(EndReason.HANGUP)
        async with asyncio.timeout(3):
            while not owner.ended:
                await asyncio.sleep(0.01)
        assert owner.ended == [EndReason.PEER_CLOSED] and server.deleted == ["/whip/s1"]


async def test_servers_take_turns_and_a_full_one_is_passed_over() -> None:
    async with whip() as first, whip(503) as full, whip() as third:
        async with agents_on(first.url, full.url, third.url) as agents:
            for _ in range(4):
                await agents.answer(OFFER, DialRule(), Owner(), 20)
            assert len(first.offers) == 2 and len(third.offers) == 2


@pytest.mark.parametrize(
    ("status", "error"),
    [(503, ServerFull), (422, UnsupportedOffer), (400, InvalidOffer), (404, EngineFailed)],
)
async def test_each_refusal_keeps_its_meaning(status: int, error: type[Exception]) -> None:
    async with whip(status) as server, agents_on(server.url) as agents:
        with pytest.raises(error):
            await agents.answer(OFFER, DialRule(), Owner(), 20)


async def test_the_key_goes_with_every_request_and_into_no_refusal() -> None:
    async with whip() as server:
        agents = RemoteAgents([server.url], ("PCMU",), key="geheim")
        leg = await agents.answer(OFFER, DialRule(), Owner(), 20)
        leg.end(EndReason.HANGUP)
        async with asyncio.timeout(3):
            while not server.deleted:
                await asyncio.sleep(0.01)
        assert server.keys == ["Bearer geheim"] * 2
        server.status = 401
        with pytest.raises(EngineFailed) as refused:
            await agents.answer(OFFER, DialRule(), Owner(), 20)
        assert "geheim" not in refused.value.message
        await agents.aclose()


async def test_no_server_at_all_is_said() -> None:
    async with agents_on("http://127.0.0.1:9") as agents:
        with pytest.raises(EngineFailed):
            await agents.answer(OFFER, DialRule(), Owner(), 20)
    with pytest.raises(ConfigError):
        RemoteAgents([], ())
