"""The gateway's session: answers find their requests, and a lost socket is not a lost session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from rtc_agent.errors import GatewayRefused, GatewayUnreachable
from rtc_agent.protocol import janus
from rtc_agent.telephony.janus_session import Gateway, JanusSession
from tests.telephony.fake_janus import FakeJanus, fake_janus


@contextlib.asynccontextmanager
async def session_with(
    fake: FakeJanus, gateway: Gateway | None = None
) -> AsyncIterator[tuple[JanusSession, list[janus.Message]]]:
    messages: list[janus.Message] = []
    session = JanusSession(gateway or fake.gateway, messages.append)
    try:
        yield session, messages
    finally:
        await session.aclose()


async def test_a_request_gets_its_own_answer_however_they_are_ordered() -> None:
    held: list[tuple[int, dict[str, object]]] = []
    async with fake_janus(answer=lambda h, body, _: held.append((h, body))) as fake:
        async with session_with(fake) as (session, messages):
            assert await session.connect() is False
            handle = await session.attach("janus.plugin.sip")
            first = asyncio.create_task(session.ask(handle, {"request": "one"}))
            second = asyncio.create_task(session.ask(handle, {"request": "two"}))
            await fake.wait_for(lambda: len(held) == 2)
            asked = {r["body"]["request"]: r["transaction"] for r in fake.requests if "body" in r}
            for name in ("two", "one"):
                data = {"sip": "event", "result": {"event": name}}
                await fake._event(handle, asked[name], data, None)
            assert (await first).data["result"] == {"event": "one"}
            assert (await second).data["result"] == {"event": "two"}
    assert messages == []


async def test_only_the_first_event_of_a_transaction_answers_it() -> None:
    async with fake_janus(answer=lambda *_: {"event": "calling"}) as fake:
        async with session_with(fake) as (session, messages):
            await session.connect()
            handle = await session.attach("janus.plugin.sip")
            await session.ask(handle, {"request": "call"})
            transaction = fake.requests[-1]["transaction"]
            await fake._event(handle, transaction, {"result": {"event": "ringing"}}, None)
            await fake.wait_for(lambda: len(messages) == 1)
    assert isinstance(messages[0], janus.PluginEvent)
    assert messages[0].data == {"result": {"event": "ringing"}}


async def test_what_is_only_told_does_not_wait_for_an_event() -> None:
    async with fake_janus() as fake, session_with(fake) as (session, _):
        await session.connect()
        await session.tell(await session.attach("p"), {"request": "decline"})


async def test_an_unanswered_request_fails_in_time() -> None:
    async with fake_janus() as fake:
        gateway = Gateway(fake.gateway.url, answer_s=0.1)
        async with session_with(fake, gateway) as (session, _):
            await session.connect()
            handle = await session.attach("p")
            with pytest.raises(GatewayUnreachable, match="unanswered"):
                await session.ask(handle, {"request": "nothing"})


async def test_a_wrong_secret_is_a_refusal_with_the_gateways_words() -> None:
    async with fake_janus(secret="right") as fake:
        gateway = Gateway(fake.gateway.url, secret="wrong")
        async with session_with(fake, gateway) as (session, _):
            with pytest.raises(GatewayRefused, match="Unauthorized") as refused:
                await session.connect()
    assert refused.value.gateway_code == 403
    assert "wrong" not in refused.value.message


async def test_nobody_there_is_unreachable() -> None:
    session = JanusSession(Gateway("ws://127.0.0.1:9/"), lambda _: None)
    with pytest.raises(GatewayUnreachable, match="does not answer"):
        await session.connect()
    await session.aclose()


async def test_a_lost_socket_fails_what_waits_and_the_session_is_claimed() -> None:
    async with fake_janus() as fake, session_with(fake) as (session, messages):
        await session.connect()
        first = session.id
        handle = await session.attach("p")
        running = asyncio.create_task(session.run())
        asking = asyncio.create_task(session.ask(handle, {"request": "x"}))
        await fake.wait_for(lambda: bool(fake.bodies()))
        await fake.drop()
        await asyncio.wait_for(running, 2)
        with pytest.raises(GatewayUnreachable):
            await asking
        assert not session.connected
        assert await session.connect() is True
        assert session.id == first
        await fake.sip(handle, "incomingcall")
        await fake.wait_for(lambda: len(messages) == 1)


async def test_a_restarted_gateway_gives_a_new_session() -> None:
    async with fake_janus() as fake, session_with(fake) as (session, _):
        await session.connect()
        first = session.id
        running = asyncio.create_task(session.run())
        await fake.drop(forget=True)
        await asyncio.wait_for(running, 2)
        assert await session.connect() is False
        assert session.id != first


async def test_the_session_is_kept_alive_and_its_timeout_ends_the_run() -> None:
    async with fake_janus() as fake:
        gateway = Gateway(fake.gateway.url, keepalive_s=0.02, answer_s=1)
        async with session_with(fake, gateway) as (session, _):
            await session.connect()
            running = asyncio.create_task(session.run())
            await fake.wait_for(lambda: sum(r["janus"] == "keepalive" for r in fake.requests) >= 3)
            await fake.say(janus="timeout", session_id=session.id)
            await asyncio.wait_for(running, 2)
            assert session.id is None


async def test_a_gateway_that_hangs_is_noticed_by_the_keepalive() -> None:
    async with fake_janus() as fake:
        gateway = Gateway(fake.gateway.url, keepalive_s=0.02, answer_s=0.1)
        async with session_with(fake, gateway) as (session, _):
            await session.connect()
            fake.mute = True
            await asyncio.wait_for(session.run(), 2)


async def test_garbage_and_a_failing_listener_do_not_end_the_session() -> None:
    async with fake_janus() as fake:

        def fail(_: janus.Message) -> None:
            raise RuntimeError("on purpose")

        session = JanusSession(fake.gateway, fail)
        try:
            await session.connect()
            assert fake._socket is not None
            await fake._socket.send_str("no json")
            await fake.say(janus="webrtcup", sender=1)
            assert await session.attach("p")
        finally:
            await session.aclose()
