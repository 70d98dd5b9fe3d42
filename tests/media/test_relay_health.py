"""A relay that does not answer is left out, asked again, and used again once it answers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from rtc_agent.errors import RelayUnavailable
from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media.ice import IceServer, IceSettings
from rtc_agent.media.relay_health import LONGEST_PAUSE_S, Relay, RelayHealth
from tests.media.test_relay_faults import refusal
from tests.virtual_clock import VirtualClock

FIRST, SECOND = "turn:a.example:3478?transport=udp", "turns:b.example:443?transport=tcp"
STUN = "stun:a.example:3478"
ICE = IceSettings(servers=(IceServer((STUN,)), IceServer((FIRST, SECOND), "u", "p")))
HERE = "127.0.0.1"


class World:
    """Relays that answer or not, on a clock that tests move."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.dead = {FIRST}
        self.asked_at: list[float] = []
        self.health = RelayHealth((STUN, FIRST, SECOND), self.clock, self._probe)

    async def _probe(self, relay: Relay) -> None:
        self.asked_at.append(self.clock.now())
        if str(relay) in self.dead:
            raise TimeoutError

    def call(self) -> list[str]:
        """One call gathers; the relays' addresses that were left to it."""
        servers = self.health.usable(ICE).servers
        relays = [url for server in servers for url in server.urls if url != STUN]
        for url in relays[:1]:
            relay = Relay.of(url)
            assert relay is not None
            if url in self.dead:
                self.health.on_failed(relay, TimeoutError(), 3.0)
            else:
                self.health.on_opened(relay)
        return relays


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.health.aclose()


async def test_calls_take_the_next_relay_until_the_first_answers_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert world.call() == [FIRST, SECOND]
    for _ in range(50):
        assert world.call() == [SECOND]
        await world.clock.run_for(1.0)
    state = world.health.states()[FIRST]
    assert state.away and state.failures == 1 and "did not answer within 3 s" in state.fault
    (warning,) = (r.message for r in caplog.records if r.levelno == logging.WARNING)
    assert FIRST in warning and "firewalls" in warning
    world.dead.clear()
    await world.clock.run_for(LONGEST_PAUSE_S)
    assert world.call() == [FIRST, SECOND]
    assert not world.health.states()[FIRST].away and not world.health.states()[FIRST].fault
    assert f"{FIRST} answers" in caplog.records[-1].message


async def test_it_is_asked_less_and_less_often_but_never_given_up(world: World) -> None:
    world.call()
    await world.clock.run_for(1_000.0)
    pauses = [b - a for a, b in zip(world.asked_at, world.asked_at[1:], strict=False)]
    assert world.asked_at[0] == 1_002.0 and pauses[:3] == [4.0, 8.0, 16.0]
    assert pauses == sorted(pauses) and set(pauses[6:]) == {LONGEST_PAUSE_S}


async def test_one_that_answers_probes_and_fails_calls_is_left_out_for_longer(world: World) -> None:
    relay = Relay.of(FIRST)
    assert relay is not None
    world.dead.clear()
    waited = []
    for _ in range(8):
        world.health.on_failed(relay, TimeoutError(), 3.0)
        began = world.clock.now()
        while world.health.states()[FIRST].away:
            await world.clock.run_for(1.0)
        waited.append(world.clock.now() - began)
    assert waited == sorted(waited) and waited[0] <= 3 and waited[-1] >= LONGEST_PAUSE_S
    world.health.on_opened(relay)
    world.clock.advance(3.1)
    world.health.on_failed(relay, TimeoutError(), 3.0)
    await world.clock.run_for(3.0)
    assert not world.health.states()[FIRST].away


async def test_the_first_call_need_not_find_out(world: World) -> None:
    world.health.start()
    await world.clock.run_for(0.0)
    assert world.call() == [SECOND]


async def test_one_that_refuses_is_asked_every_time_and_named_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    relay = Relay.of(FIRST)
    assert relay is not None
    for _ in range(3):
        world.health.on_failed(relay, refusal(401, "Unauthorized"), 3.0)
    assert world.health.usable(ICE) is ICE
    assert [r.message.count("(401)") for r in caplog.records] == [1]
    assert world.health.states()[FIRST].failures == 3
    world.health.on_opened(relay)
    assert not world.health.states()[FIRST].fault


async def test_a_call_that_may_go_by_relays_alone_is_refused_while_none_answers(
    world: World,
) -> None:
    alone = IceSettings(servers=ICE.servers, relay_only=True, relays=world.health)
    world.call()
    assert [s.urls for s in world.health.usable(alone).servers] == [(STUN,), (SECOND,)]
    world.dead.add(SECOND)
    world.call()
    with pytest.raises(RelayUnavailable) as refused:
        shim.new_peer_connection(alone)
    assert refused.value.http_status == 503 and refused.value.retry_after_s


@pytest.mark.parametrize(
    "url", ["stuns:a", "stun:[::1]:1", "turn:[::1]", "turns:b.example?transport=udp", "turn:a:b:c"]
)
def test_what_cannot_be_used(url: str) -> None:
    assert Relay.of(url) is None


async def test_one_that_answers_only_some_of_the_addresses_is_not_left_out(world: World) -> None:
    server = Relay.of(STUN)
    assert server is not None and str(server) == STUN
    world.health.on_opened(server)
    world.clock.advance(2.9)
    world.health.on_failed(server, TimeoutError(), 3.0)
    assert world.health.usable(ICE) is ICE
    world.clock.advance(3.0)
    world.health.on_failed(server, TimeoutError(), 3.0)
    assert [s.urls for s in world.health.usable(ICE).servers] == [(FIRST, SECOND)]
