"""Packets past aiortc's loops: what is read of them, what is left to aiortc, and its counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiortc.rtp import RtpPacket
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.media import rtp_path
from tests.media.peers import Caller, connect


def test_nothing_has_moved() -> None:
    """When this fails, read the release notes of aiortc and aioice and adapt `rtp_path`."""
    assert rtp_path.check() == ()


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """The beginnings of packets, most of them sound."""
    sources, words = draw(st.integers(0, 15)), draw(st.integers(0, 3))
    extended, padded = draw(st.booleans()), draw(st.booleans())
    packet = bytes([0x80 | padded << 5 | extended << 4 | sources]) + bytes(11 + 4 * sources)
    if extended:
        packet += bytes([0xBE, 0xDE, 0, words]) + bytes(4 * words)
    packet += draw(st.binary(min_size=1, max_size=20))
    return packet[: draw(st.integers(12, len(packet)))]


@given(headers())
def test_payloads_are_found_where_aiortc_finds_them(packet: bytes) -> None:
    try:
        expected = RtpPacket.parse(packet).payload
    except ValueError:
        with pytest.raises(ValueError):
            rtp_path._payload(packet[0], packet)
    else:
        assert rtp_path._payload(packet[0], packet) == expected


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not met():
            await asyncio.sleep(0.02)


async def test_packets_wait_for_no_task_of_aiortcs_and_its_counts_are_kept_up() -> None:
    caller, peer, _ = await connect()
    await until(lambda: peer.stats().packets_received > 2 and len(caller.packets) > 2)
    receiver: Any = peer._pc.getReceivers()[0]

    async def lost(*args: Any, **kwargs: Any) -> None:
        """What aiortc's own way would come to."""

    receiver.transport._handle_rtp_data = lost
    before = peer.stats().packets_received
    await until(lambda: peer.stats().packets_received >= before + 10)
    (stream,) = receiver._RTCRtpReceiver__remote_streams.values()
    assert stream.packets_received == peer.stats().packets_received
    sender: Any = peer._pc.getSenders()[0]
    assert 0 < sender._RTCRtpSender__packet_count <= peer.stats().packets_sent
    await caller.close()
    await peer.aclose()


async def test_another_aiortc_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtp_path, "check", lambda: ("something",))
    caller, peer, _ = await connect()
    assert "data_received" not in vars(peer._pc.getReceivers()[0].transport.transport._connection)
    await until(lambda: peer.stats().packets_received > 5 and len(caller.packets) > 5)
    await caller.close()
    await peer.aclose()


async def test_the_stream_of_a_stopped_sender_ends(caplog: pytest.LogCaptureFixture) -> None:
    caller: Caller
    caller, peer, _ = await connect()
    await until(lambda: len(caller.packets) > 2)
    await asyncio.wait_for(peer.aclose(), 5)
    assert "ended" not in caplog.text
    await caller.close()


def test_another_connection_takes_the_place_of_one() -> None:
    def made() -> tuple[Any, list[bytes]]:
        queue: list[bytes] = []
        return SimpleNamespace(data_received=lambda data, component: queue.append(data)), queue

    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        if data == b"media":
            taken.append(data)
        return data == b"media"

    (old, old_queue), (new, new_queue) = made(), made()
    rtp_path._divert(old, take)
    rtp_path.follow(old, new)
    for connection in (old, new):
        connection.data_received(b"media", 1)
        connection.data_received(b"other", 1)
    assert taken == [b"media"] * 2 and old_queue == new_queue == [b"other"]
    rtp_path.follow(*(made()[0] for _ in range(2)))
