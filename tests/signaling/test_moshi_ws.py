"""`/api/chat` with a client made of the reference client's own Opus library."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import numpy as np
import pytest
import sphn

from rtc_agent.call.state import CallState
from rtc_agent.engine.stepper import SamplingSpec, SessionSpec
from signaling.guard import GuardRules
from signaling.parts import Access
from tests.engine.fakes import FakeStepper
from tests.signaling.site import OFFER, Site, StartClient, serving

WEB_CLIENT = (
    "/api/chat?text_temperature=0.7&text_topk=25&audio_temperature=0.8&audio_topk=250"
    "&pad_mult=0&text_seed=7&audio_seed=9&repetition_penalty=1.0&repetition_penalty_context=64"
    "&voice_prompt=NATF2.pt&text_prompt=&worker_auth_id=&email="
)
"""What the PersonaPlex web client asks for."""


async def kinds(ws: aiohttp.ClientWebSocketResponse, count: int) -> list[int]:
    return [(await ws.receive_bytes(timeout=5))[0] for _ in range(count)]


async def greeted(it: Site, path: str = "/api/chat") -> aiohttp.ClientWebSocketResponse:
    """Connected, as the reference client waits to be: the first message is the handshake."""
    ws = await it.client.ws_connect(path)
    await it.bench.run(0.2)
    first = await ws.receive_bytes(timeout=5)
    assert first[0] == 0
    return ws


async def test_handshake_then_sound_and_text(aiohttp_client: StartClient) -> None:
    stepper = FakeStepper()
    async with serving(aiohttp_client, stepper=stepper) as it:
        ws = await greeted(it)
        stepper.text = {0: " schön"}
        await it.bench.run(0.17)
        received = [await ws.receive_bytes(timeout=5) for _ in range(6)]
        text = b"".join(m[1:] for m in received if m[0] == 2).decode()
        assert text.startswith(" schön")
        reader = sphn.OpusStreamReader(24_000)
        sound = [reader.append_bytes(m[1:]) for m in received if m[0] == 1]
        assert sum(map(len, sound)) > 2_000
        await ws.close()


async def test_what_the_client_says_reaches_the_agent(aiohttp_client: StartClient) -> None:
    heard: list[float] = []

    class Listening(FakeStepper):
        def step(self, pcm: Any, live: Any) -> Any:
            heard.append(float(np.abs(pcm[0]).max()))
            return super().step(pcm, live)

    async with serving(aiohttp_client, stepper=Listening()) as it:
        ws = await greeted(it)
        writer = sphn.OpusStreamWriter(24_000)
        t = np.arange(1920) / 24_000
        for _ in range(15):
            tone = (0.5 * np.sin(2 * np.pi * 440 * t)).astype(np.float32)
            await ws.send_bytes(b"\x01" + writer.append_pcm(tone))
            await asyncio.sleep(0.01)
            await it.bench.run(0.08)
        assert max(heard) > 0.3
        await ws.close()


async def test_the_web_clients_parameters_are_read(aiohttp_client: StartClient) -> None:
    stepper = FakeStepper()
    async with serving(aiohttp_client, stepper=stepper) as it:
        ws = await greeted(it, WEB_CLIENT)
        assert stepper.specs == [
            SessionSpec(
                voice="NATF2",
                sampling=SamplingSpec(
                    text_temperature=0.7,
                    text_top_k=25,
                    audio_temperature=0.8,
                    audio_top_k=250,
                    seed=7,
                ),
            )
        ]
        await ws.close()


@pytest.mark.parametrize(
    "query", ["", "?seed=-1", "?unknown=1", "?voice_prompt=&seed=", "?voice_prompt=.pt"]
)
async def test_a_bare_client_gets_the_defaults(aiohttp_client: StartClient, query: str) -> None:
    stepper = FakeStepper()
    async with serving(aiohttp_client, stepper=stepper) as it:
        ws = await greeted(it, f"/api/chat{query}")
        assert stepper.specs[0].sampling == SamplingSpec()
        await ws.close()


@pytest.mark.parametrize(
    "query", ["text_temperature=hot", "seed=x", "audio_topk=-1", "text_temperature=nan"]
)
async def test_parameters_that_do_not_fit_are_refused_before_the_socket(
    aiohttp_client: StartClient, query: str
) -> None:
    async with serving(aiohttp_client) as it:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await it.client.ws_connect(f"/api/chat?{query}")
        assert refusal.value.status == 400
        await it.bench.run(0.2)
        assert it.free == 4


async def test_a_second_caller_is_told_at_once_that_the_server_is_full(
    aiohttp_client: StartClient,
) -> None:
    async with serving(aiohttp_client, slots=1) as it:
        ws = await greeted(it)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await it.client.ws_connect("/api/chat")
        assert refusal.value.status == 503
        await ws.close()


async def lose(ws: aiohttp.ClientWebSocketResponse) -> None:
    """The client's connection ends, as when its process is killed; nobody says farewell."""
    connection = ws._response.connection
    assert connection is not None and connection.transport is not None
    connection.transport.close()
    await asyncio.sleep(0.05)


async def test_a_client_that_asked_for_it_comes_back_to_its_call(
    aiohttp_client: StartClient,
) -> None:
    stepper = FakeStepper(slots=1)
    rules = GuardRules(calls_per_address=1)
    async with serving(aiohttp_client, stepper=stepper, access=Access(rules=rules)) as it:
        ws = await greeted(it, "/api/chat?resumable=1&text_prompt=Be%20kind.")
        told = await ws.receive_bytes(timeout=5)
        metadata = json.loads(told[1:])
        assert told[0] == 4 and metadata["reconnect_grace_s"] == 10
        await lose(ws)
        [call] = it.bench.registry
        assert call.state is CallState.RECONNECTING
        stepper.text = {0: " meanwhile"}
        await it.bench.run(1)
        stepper.text = {}

        back = await it.client.ws_connect(f"/api/chat?session_id={metadata['session_id']}")
        await it.bench.run(0.5)
        received = [await back.receive_bytes(timeout=5) for _ in range(22)]
        assert received[0][0] == 0 and received[1] == told
        assert b"".join(m[1:] for m in received if m[0] == 2).startswith(b" meanwhile meanwhile")
        reader = sphn.OpusStreamReader(24_000)
        sound = [reader.append_bytes(m[1:]) for m in received if m[0] == 1]
        assert sum(map(len, sound)) > 2_000, "a stream of its own"
        assert [call.state for call in it.bench.registry] == [CallState.LIVE]
        assert len(stepper.specs) == 1

        await back.close()
        await asyncio.sleep(0.05)
        await it.bench.run(0.2)
        assert it.free == 1, "who closes is not waited for"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await it.client.ws_connect(f"/api/chat?session_id={metadata['session_id']}")
        assert refusal.value.status == 404


async def test_a_client_that_did_not_ask_is_not_waited_for(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, slots=1) as it:
        ws = await greeted(it)
        [call] = it.bench.registry
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await it.client.ws_connect(f"/api/chat?session_id={call.ids.session}")
        assert refusal.value.status == 409
        await lose(ws)
        await it.bench.run(0.2)
        assert it.free == 1

        offer = {"sdp": OFFER, "type": "offer"}
        other = await (await it.client.post("/api/offer", json=offer)).json()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await it.client.ws_connect(f"/api/chat?session_id={other['pc_id']}")
        assert refusal.value.status == 409, "a call that speaks another protocol"


async def test_closing_frees_the_slot(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, slots=1) as it:
        for _ in range(3):
            ws = await greeted(it)
            await ws.close()
            await asyncio.sleep(0.05)
            await it.bench.run(0.2)
            assert it.free == 1


async def test_a_call_that_the_server_ends_is_told_and_closed(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        ws = await greeted(it)
        await it.bench.registry.aclose(2)
        received = [m async for m in ws]
        assert received[-1].data[0] == 5
        assert "stopped" in received[-1].data[1:].decode()
        assert ws.closed


async def test_sound_that_is_no_opus_closes_the_socket(aiohttp_client: StartClient) -> None:
    from tests.media.test_moshi_transport import _page

    async with serving(aiohttp_client) as it:
        ws = await greeted(it)
        await ws.send_bytes(b"\x01" + _page(b"\x7fFLAC123456"))
        async for _ in ws:
            pass
        assert ws.close_code == aiohttp.WSCloseCode.UNSUPPORTED_DATA
        await asyncio.sleep(0.05)
        await it.bench.run(0.2)
        assert it.free == 4


async def test_a_plain_get_is_a_400(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        response = await it.client.get("/api/chat")
        assert response.status == 400
        await it.bench.run(0.2)
        assert it.free == 4
