"""Peers of telephone calls against each other on loopback: codecs, keys, who offers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest
from aiortc.rtp import RtpPacket

from rtc_agent.clock import MonotonicClock
from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.errors import InvalidOffer, UnsupportedOffer
from rtc_agent.media.ice import IceSettings
from rtc_agent.media.phone_peer import PhonePeer
from rtc_agent.protocol.sdp import Description
from rtc_agent.protocol.telephone_event import TelephoneEvent

ICE = IceSettings(hosts=("127.0.0.1",))
PREFERRED = ("G722", "opus", "PCMA", "PCMU")
Keys = list[tuple[bytes, int]]


class Events:
    """What a peer reports."""

    def __init__(self) -> None:
        self.connected = asyncio.Event()
        self.closed: list[str] = []

    def on_connected(self) -> None:
        self.connected.set()

    def on_closed(self, reason: str) -> None:
        self.closed.append(reason)

    def on_channel(self, label: str) -> None:
        raise AssertionError("a telephone has no channels")

    def on_message(self, label: str, message: str) -> None:
        raise AssertionError("a telephone sends no messages")


async def offering(
    codecs: tuple[str, ...], events: Events, keys: Callable[[bytes, int], None]
) -> tuple[PhonePeer, str]:
    return await PhonePeer.make_offer(
        events=events, on_telephone_event=keys, codecs=codecs, ice=ICE, clock=MonotonicClock()
    )


async def answering(
    offer: str, events: Events, keys: Callable[[bytes, int], None]
) -> tuple[PhonePeer, str]:
    return await PhonePeer.take_offer(
        offer,
        events=events,
        on_telephone_event=keys,
        codecs=PREFERRED,
        ice=ICE,
        clock=MonotonicClock(),
    )


@contextlib.asynccontextmanager
async def pair(codecs: tuple[str, ...]) -> AsyncIterator[tuple[PhonePeer, PhonePeer, Keys]]:
    """Two connected peers, and the keys that the second one is told."""
    keys: Keys = []
    mine, theirs = Events(), Events()
    first, offer = await offering(codecs, mine, lambda *_: None)
    second, answer = await answering(offer, theirs, lambda *key: keys.append(key))
    try:
        await first.accept(answer)
        async with asyncio.timeout(10):
            await mine.connected.wait()
            await theirs.connected.wait()
        yield first, second, keys
    finally:
        await first.aclose()
        await second.aclose()


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [
        (("PCMU", "PCMA", "opus", "G722"), "G722"),
        (("PCMU", "opus"), "opus"),
        (("PCMU", "PCMA"), "PCMA"),
        (("PCMU",), "PCMU"),
    ],
)
async def test_both_agree_on_the_best_codec_and_hear_each_other(
    offered: tuple[str, ...], agreed: str
) -> None:
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(FRAME_SAMPLES) / 24_000, dtype=np.float32)
    async with pair(offered) as (first, second, _):
        assert first.codec_name == second.codec_name == agreed
        loudest = [0.0, 0.0]
        for _ in range(12):
            for index, (speaker, listener) in enumerate(((first, second), (second, first))):
                speaker.play(tone)
                heard = listener.source.reserve()
                listener.source.commit()
                loudest[index] = max(loudest[index], float(np.abs(heard).max()))
            await asyncio.sleep(0.08)
    assert min(loudest) > 0.2


async def test_keys_within_audio_are_told_and_are_no_losses() -> None:
    async with pair(("PCMU",)) as (first, second, keys):
        await asyncio.sleep(0.2)
        transport = first._pc.getSenders()[0].transport
        payload = TelephoneEvent(5, end=True, volume=10, duration=800).encode()
        packet = RtpPacket(payload_type=101, sequence_number=1, timestamp=4_711, ssrc=7)
        packet.payload = payload
        await transport._send_rtp(packet.serialize())
        async with asyncio.timeout(3):
            while not keys:
                await asyncio.sleep(0.01)
        assert keys == [(payload, 4_711)]
        assert not second.source.reserve().any()


async def test_an_offer_has_the_codecs_in_order_then_the_keys_and_every_candidate() -> None:
    peer, offer = await offering(("PCMA", "G722"), Events(), lambda *_: None)
    try:
        (section,) = Description.parse(offer).sections
        names = [name.partition("/")[0] for name in section.codec_names().values()]
        assert names == ["PCMA", "G722", "telephone-event"]
        assert section.attributes("candidate") and section.flag("end-of-candidates")
    finally:
        await peer.aclose()


async def test_what_cannot_be_used_is_refused_and_closed() -> None:
    with pytest.raises(UnsupportedOffer):
        await answering("v=0\r\ns=-\r\nt=0 0\r\n", Events(), lambda *_: None)
    for answer in ("garbage", "v=0\r\ns=-\r\nt=0 0\r\n"):
        peer, _ = await offering(("PCMU",), Events(), lambda *_: None)
        with pytest.raises((InvalidOffer, UnsupportedOffer)):
            await peer.accept(answer)
    peer, answer = await pair_answer()
    with pytest.raises(InvalidOffer, match="made no offer"):
        await peer.accept(answer)
    await peer.aclose()


async def pair_answer() -> tuple[PhonePeer, str]:
    first, offer = await offering(("PCMU",), Events(), lambda *_: None)
    second, answer = await answering(offer, Events(), lambda *_: None)
    await first.aclose()
    return second, answer
