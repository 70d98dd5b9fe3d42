"""What others send to a peer's port, and channels that come and go."""

from __future__ import annotations

import asyncio
import socket

from rtc_agent.media.peer import MAX_CHANNELS, WebRtcPeer
from tests.media.peers import LOOPBACK, Caller, Events


async def connected() -> tuple[Caller, WebRtcPeer, Events, str]:
    caller, events = Caller(), Events()
    peer, answer = await WebRtcPeer.answer(await caller.offer(), events=events, ice=LOOPBACK)
    await caller.accept(answer)
    await events.wait_for("connected")
    return caller, peer, events, answer


async def test_a_strangers_packets_are_no_sign_of_life_and_end_nothing() -> None:
    caller, peer, events, answer = await connected()
    line = next(x for x in answer.splitlines() if x.startswith("a=candidate:"))
    port = int(line.split()[5])
    assert peer.silent_s() < 2
    caller.track.stop()
    for sender in caller.pc.getSenders():
        await sender.stop()
    # The caller's own checks and reports still come; a dead one sends none of them either.
    for transport in list(caller.pc._RTCPeerConnection__iceTransports):  # type: ignore[attr-defined]
        await transport.stop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        before = peer.silent_s()
        for _ in range(20):
            for junk in (b"", b"\x80" * 60, b"\x16" * 60, b"\x00\x01\x00\x00" + b"\x21" * 40):
                stranger.sendto(junk, ("127.0.0.1", port))
            await asyncio.sleep(0.05)
    assert peer.silent_s() >= before + 0.9
    assert ("closed", "connection_failed") not in events.log
    await peer.aclose()
    await caller.close()


async def test_a_closed_channel_makes_room_for_another() -> None:
    caller, peer, events, _ = await connected()
    await events.wait_for("channel", "text")
    for number in range(2 * MAX_CHANNELS):
        label = f"c{number}"
        channel = caller.pc.createDataChannel(label)
        await events.wait_for("channel", label)
        channel.close()
        async with asyncio.timeout(10):
            while label in peer._channels:
                await asyncio.sleep(0.02)
    assert peer.send("text", "still there")
    await caller.close()
    await peer.aclose()
