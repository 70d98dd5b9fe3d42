"""Connections of one direction, and an offer made anew, over loopback."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from aiortc import RTCPeerConnection, RTCSessionDescription

from rtc_agent.clock import MonotonicClock
from rtc_agent.engine.stepper import FRAME_S
from rtc_agent.errors import CallConflict
from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media.codecs import OPUS
from rtc_agent.media.levels import dbfs
from rtc_agent.media.peer import WebRtcPeer
from rtc_agent.media.playout import PlayoutTrack
from rtc_agent.protocol.sdp import Description, Flow
from tests.media.peers import LOOPBACK, Events, connect
from tests.media.simulation import noise


async def one_way(
    direction: str, flow: Flow
) -> tuple[RTCPeerConnection, PlayoutTrack, WebRtcPeer, str]:
    """A connection whose offerer offers that direction; the answer's direction too."""
    pc, events = shim.new_peer_connection(LOOPBACK), Events()
    track = PlayoutTrack(OPUS, MonotonicClock())
    pc.addTransceiver(track if direction != "recvonly" else "audio", direction)
    shim.restrict_hosts(pc, LOOPBACK.hosts)
    await pc.setLocalDescription(await pc.createOffer())
    offer = pc.localDescription.sdp.replace("a=rtcp-mux\r\n", "a=rtcp-mux\r\na=rtcp-mux-only\r\n")
    peer, answer = await WebRtcPeer.answer(offer, events=events, ice=LOOPBACK, flow=flow)
    assert "a=rtcp-mux-only\r\n" in answer
    await pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    await events.wait_for("connected")
    return pc, track, peer, Description.parse(answer).sections[0].direction


@pytest.mark.parametrize(
    ("direction", "flow", "answered"),
    [
        ("sendonly", Flow.CALL_OR_INGEST, "recvonly"),
        ("sendrecv", Flow.CALL_OR_INGEST, "sendrecv"),
        ("sendrecv", Flow.INGEST, "recvonly"),
    ],
)
async def test_a_publisher_is_heard(direction: str, flow: Flow, answered: str) -> None:
    pc, track, peer, found = await one_way(direction, flow)
    assert found == answered
    loudest = -100.0
    for _ in range(25):
        track.play(noise(FRAME_S))
        await asyncio.sleep(FRAME_S)
        loudest = max(loudest, dbfs(peer.source.reserve()))
        peer.source.commit()
    assert loudest > -40
    await asyncio.gather(pc.close(), peer.aclose())


@pytest.mark.parametrize("direction", ["recvonly", "sendrecv"])
async def test_a_listener_hears(direction: str) -> None:
    pc, _, peer, found = await one_way(direction, Flow.LISTEN)
    assert found == "sendonly"
    receiver = pc.getReceivers()[0]
    payloads: list[bytes] = []
    assert shim.tap_audio(receiver, lambda packet: payloads.append(packet.payload))
    for _ in range(15):
        peer.play(np.asarray(noise(FRAME_S), np.float32))
        await asyncio.sleep(FRAME_S)
    assert max(map(len, payloads)) > 40
    await asyncio.gather(pc.close(), peer.aclose())


async def test_the_connection_goes_on_after_the_same_offer_again() -> None:
    caller, peer, _ = await connect()
    offer = caller.pc.localDescription.sdp
    await caller.pc.setLocalDescription(await caller.pc.createOffer())
    answer = await peer.renegotiate(caller.pc.localDescription.sdp)
    await caller.pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    before = len(caller.packets)
    await asyncio.sleep(0.5)
    assert len(caller.packets) > before + 10
    with pytest.raises(CallConflict, match="ICE restart"):
        await peer.renegotiate(offer.replace("a=ice-ufrag:", "a=ice-ufrag:x"))
    await asyncio.gather(caller.close(), peer.aclose())
