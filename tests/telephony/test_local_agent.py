"""Legs of this process: a call behind each, told of media only once the telephone is answered."""

from __future__ import annotations

import pytest

from rtc_agent.call.limits import CallLimits
from rtc_agent.call.state import CallState, EndReason
from rtc_agent.call.transport import TransportEvents
from rtc_agent.engine.stepper import FRAME_S
from rtc_agent.errors import ConfigError, InvalidOffer, ServerFull
from rtc_agent.protocol.telephone_event import TelephoneEvent
from rtc_agent.telephony.config import DialRule
from rtc_agent.telephony.local_agent import LocalAgents, LocalLeg, TelephoneEvents
from tests.call.fakes import CallBench, FakeTransport, call_bench
from tests.engine.fakes import FakeStepper
from tests.virtual_clock import VirtualClock


class FakePeer(FakeTransport):
    """A peer without a network."""

    codec_name = "PCMU"

    def __init__(
        self, clock: VirtualClock, events: TransportEvents, on_keys: TelephoneEvents
    ) -> None:
        super().__init__(clock, events)
        self.on_keys = on_keys
        self.accepted: list[str] = []
        self.candidates: list[str | None] = []

    async def accept(self, answer_sdp: str) -> None:
        self.accepted.append(answer_sdp)

    async def add_candidate(
        self, candidate: str | None, sdp_mid: str | None, sdp_mline_index: int | None
    ) -> None:
        self.candidates.append(candidate)


class FakePeers:
    """Makes peers, or refuses."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.made: list[FakePeer] = []

    async def answer(
        self, offer_sdp: str, events: TransportEvents, on_telephone_event: TelephoneEvents
    ) -> tuple[FakePeer, str]:
        if offer_sdp == "garbage":
            raise InvalidOffer("no")
        return (await self.offer(events, on_telephone_event))[0], "answer"

    async def offer(
        self, events: TransportEvents, on_telephone_event: TelephoneEvents
    ) -> tuple[FakePeer, str]:
        self.made.append(FakePeer(self._clock, events, on_telephone_event))
        return self.made[-1], "offer"


class Owner:
    """What a telephone call would be told."""

    def __init__(self) -> None:
        self.ended: list[EndReason] = []
        self.keys: list[str] = []

    def on_leg_ended(self, reason: EndReason) -> None:
        self.ended.append(reason)

    def on_key(self, key: str) -> None:
        self.keys.append(key)


async def place(
    bench: CallBench, rule: DialRule | None = None, offer: str = "offer"
) -> tuple[LocalLeg, FakePeer, Owner]:
    peers, owner = FakePeers(bench.clock), Owner()
    agents = LocalAgents(bench.registry, peers, bench.clock)
    leg = await agents.answer(offer, rule or DialRule(), owner, 20)
    assert isinstance(leg, LocalLeg)
    return leg, peers.made[0], owner


async def test_media_that_flows_early_starts_nothing_until_somebody_answers() -> None:
    async with call_bench() as bench:
        leg, peer, _ = await place(bench)
        assert leg.sdp == "answer"
        peer.events.on_connected()
        await bench.run(1, peer)
        assert leg.call.state is CallState.CONNECTING and not peer.played
        leg.start()
        leg.start()
        await bench.run(2 * FRAME_S, peer)
        assert leg.call.state is CallState.LIVE and peer.played


async def test_media_after_the_answer_starts_the_call() -> None:
    async with call_bench() as bench:
        leg, peer, _ = await place(bench)
        await bench.run(FRAME_S)
        leg.start()
        assert leg.call.state is CallState.CONNECTING
        peer.events.on_connected()
        await bench.run(FRAME_S, peer)
        assert leg.call.state is CallState.LIVE


async def test_the_rules_limits_are_the_calls() -> None:
    async with call_bench(limits=CallLimits(vanished_s=1e6)) as bench:
        leg, peer, owner = await place(bench, DialRule(call_limit_s=10, idle_limit_s=0))
        leg.start()
        peer.events.on_connected()
        await bench.run(9, peer)
        assert not leg.ended
        await bench.run(2, peer)
        assert leg.ended
        # The connection is kept for a moment, for the agent's last words.
        await leg.transport.aclose()
        assert owner.ended == [EndReason.CALL_LIMIT]


async def test_ringing_may_take_longer_than_a_browser_may() -> None:
    async with call_bench(limits=CallLimits(connect_s=15)) as bench:
        leg, _, _ = await place(bench)
        await bench.run(30)
        assert not leg.ended
        await bench.run(10)
        assert leg.call.reason is EndReason.CONNECT_TIMEOUT


async def test_each_press_within_audio_is_told_once() -> None:
    async with call_bench() as bench:
        _, peer, owner = await place(bench)
        payload = TelephoneEvent(5, end=True, volume=10, duration=800).encode()
        for timestamp in (160, 160, 160, 1760):
            peer.on_keys(payload, timestamp)
        assert owner.keys == ["5", "5"]


async def test_after_a_hold_the_peers_silence_counts_from_its_end() -> None:
    async with call_bench() as bench:
        leg, peer, _ = await place(bench)
        leg.start()
        peer.events.on_connected()
        await bench.run(1, peer)
        leg.set_held(True)
        await bench.run(700)
        leg.set_held(False)
        await bench.run(7)
        assert not leg.ended
        await bench.run(2)
        assert leg.call.reason is EndReason.PEER_VANISHED


async def test_what_cannot_be_placed_holds_nothing() -> None:
    async with call_bench(FakeStepper(slots=1)) as bench:
        with pytest.raises(InvalidOffer):
            await place(bench, offer="garbage")
        await bench.run(FRAME_S)
        await place(bench)
        with pytest.raises(ServerFull):
            await place(bench)


async def test_a_dial_plan_that_cannot_be_served_is_found_at_the_start() -> None:
    async with call_bench() as bench:
        agents = LocalAgents(bench.registry, FakePeers(bench.clock), bench.clock)
        agents.check(DialRule(agent="fake"))
        with pytest.raises(ConfigError, match="'personaplex'.*'fake' runs here"):
            agents.check(DialRule(agent="personaplex"))
