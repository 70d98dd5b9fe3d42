"""What is told of relays and STUN servers that connections have asked."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest
from aioice import stun

from rtc_agent.clock import MonotonicClock
from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media import relay_health, relay_outcomes
from rtc_agent.media.ice import IceServer, IceSettings
from rtc_agent.media.relay_health import Relay, RelayHealth, ask

HERE = "127.0.0.1"


async def test_a_relay_that_stays_silent_is_named_and_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(relay_outcomes, "RELAY_LIMIT_S", 0.2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind((HERE, 0))
        url = f"turn:127.0.0.1:{silent.getsockname()[1]}"
        pc = shim.new_peer_connection(IceSettings(servers=(IceServer((url,), "u", "p"),)))
        pc.createDataChannel("text")
        shim.restrict_hosts(pc, (HERE,))
        with relay_outcomes.relay_faults() as faults, caplog.at_level(logging.WARNING):
            await pc.setLocalDescription(await pc.createOffer())
        await pc.close()
    (fault,) = faults
    assert url.removeprefix("turn:") in fault and "did not answer within 0.2 s" in fault
    assert fault in caplog.text
    assert "typ host" in pc.localDescription.sdp


class Answers(socket.socket):
    """A server that is silent, and refuses whatever it is sent when it is told to answer."""

    def __init__(self) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_DGRAM)
        self.bind((HERE, 0))
        port = self.getsockname()[1]
        self.urls = (f"turn:{HERE}:{port}?transport=udp", f"stun:{HERE}:{port}")

    def answer(self) -> None:
        data, address = self.recvfrom(2_048)
        request = stun.parse_message(data)
        response = stun.Message(
            request.message_method, stun.Class.ERROR, transaction_id=request.transaction_id
        )
        response.attributes["ERROR-CODE"] = (401, "Unauthorized")
        self.sendto(bytes(response), address)


async def gather(url: str, health: RelayHealth) -> str:
    """The description of a connection that looks for its path."""
    ice = IceSettings(servers=(IceServer((url,), "u", "p"),), relays=health)
    pc = shim.new_peer_connection(ice)
    pc.createDataChannel("text")
    shim.restrict_hosts(pc, (HERE,))
    with relay_outcomes.remembering_relays(health):
        await pc.setLocalDescription(await pc.createOffer())
    await pc.close()
    return str(pc.localDescription.sdp)


@pytest.mark.parametrize("kind", [0, 1])
async def test_a_silent_port_costs_one_call_its_wait_and_the_next_none(
    kind: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(relay_outcomes, "RELAY_LIMIT_S", 0.2)
    with Answers() as server:
        url = server.urls[kind]
        health = RelayHealth((url,), MonotonicClock())
        try:
            for _ in range(3):
                assert "typ host" in await gather(url, health)
            assert health.states()[url].failures == 1
            assert caplog.text.count("did not answer within 0.2 s") == 1
        finally:
            await health.aclose()


@pytest.mark.parametrize("kind", [0, 1])
async def test_a_port_is_asked_over_the_network(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_health, "PROBE_LIMIT_S", 20.0)
    with Answers() as there:
        relay = Relay.of(there.urls[kind])
        assert relay is not None
        answered = asyncio.create_task(asyncio.to_thread(there.answer))
        await ask(relay)
        await answered
        monkeypatch.setattr(relay_health, "PROBE_LIMIT_S", 0.2)
        with pytest.raises(TimeoutError):
            await ask(relay)
