"""ICE restarts between two connections of ours: the same encryption over another path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiortc.sdp import candidate_from_sdp

from rtc_agent.errors import CallConflict, UnsupportedOffer
from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media import ice_restart
from rtc_agent.media.ice_restart import IceRestart
from rtc_agent.media.peer import WebRtcPeer
from tests.media.peers import LOOPBACK, Caller, Events


def test_the_installed_libraries_have_every_touch() -> None:
    """When this fails, read the release notes of aiortc and aioice and adapt `ice_restart`."""
    assert ice_restart.check() == []


async def until(holds: Callable[[], bool], timeout_s: float = 10) -> None:
    async with asyncio.timeout(timeout_s):
        while not holds():
            await asyncio.sleep(0.02)


def connection_of(caller: Caller) -> Any:
    (transport,) = shim.ice_transports(caller.pc)
    return transport._connection


def lose_path(caller: Caller) -> None:
    """The caller's network is gone, and nobody is told."""
    for protocol in connection_of(caller)._protocols:
        protocol.datagram_received = lambda data, address: None
        protocol.transport.sendto = lambda data, address: None


async def restart(caller: Caller, peer: WebRtcPeer, trickled: bool = False) -> None:
    """The caller seeks another path, as a client of WHIP does."""
    theirs = await IceRestart.begin(caller.pc, LOOPBACK, lambda: None)
    ours = await peer.restart_ice(theirs.ufrag, theirs.password)
    if trickled:
        for candidate in theirs.candidates:
            await peer.add_candidate(candidate, ours.mid)
    for candidate in ours.candidates:
        await theirs.add_candidate(candidate_from_sdp(candidate))
    theirs.start(ours.ufrag, ours.password)
    await until(lambda: not theirs.pending)


@pytest.fixture
async def joined() -> Any:
    caller, events = Caller(), Events()
    offer = await caller.offer()
    ice_restart.allow_restarts(caller.pc)
    peer, answer = await WebRtcPeer.answer(offer, events=events, ice=LOOPBACK)
    await caller.accept(answer)
    await events.wait_for("connected")
    await caller.wait_open()
    yield caller, peer, events
    await asyncio.gather(caller.close(), peer.aclose())


@pytest.mark.parametrize("trickled", [False, True])
async def test_a_caller_whose_path_is_gone_comes_back_over_another(
    joined: tuple[Caller, WebRtcPeer, Events], trickled: bool
) -> None:
    caller, peer, events = joined
    before = connection_of(caller).local_username
    lose_path(caller)
    for _ in range(2):
        await restart(caller, peer, trickled)
        heard, received = peer.stats().packets_received, len(caller.packets)
        await until(lambda n=heard: peer.stats().packets_received > n + 10)  # type: ignore[misc]
        await until(lambda n=received: len(caller.packets) > n + 10)  # type: ignore[misc]
        assert peer.silent_s() < 1
    assert connection_of(caller).local_username != before
    assert caller.channel is not None
    caller.channel.send("still here")
    await events.wait_for("message", "text", "still here")
    assert not [entry for entry in events.log if entry[0] == "closed"]


async def test_a_restart_that_nobody_answers_leaves_the_connection_as_it_was(
    joined: tuple[Caller, WebRtcPeer, Events], monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, peer, events = joined
    monkeypatch.setattr(ice_restart, "CONNECT_LIMIT_S", 0.3)
    ours = await peer.restart_ice("nobody", "x" * 22)
    again = await peer.restart_ice("nobody", "x" * 22)
    assert ours.ufrag != again.ufrag and ours.candidates != again.candidates
    await asyncio.sleep(0.5)
    heard = peer.stats().packets_received
    await until(lambda: peer.stats().packets_received > heard + 10)
    assert not [entry for entry in events.log if entry[0] == "closed"]


async def test_a_connection_that_is_not_there_cannot_be_restarted() -> None:
    caller, events = Caller(), Events()
    peer, _ = await WebRtcPeer.answer(await caller.offer(), events=events, ice=LOOPBACK)
    with pytest.raises(UnsupportedOffer):
        await peer.restart_ice("abcd", "x" * 22)
    await asyncio.gather(caller.close(), peer.aclose())
    with pytest.raises(CallConflict):
        await peer.restart_ice("abcd", "x" * 22)
