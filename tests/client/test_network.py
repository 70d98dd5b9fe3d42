from __future__ import annotations

import asyncio

import pytest

from rtc_agent.client.call_client import CallClient
from rtc_agent.client.impair import Impairment, Link
from rtc_agent.client.network import Downlink, Uplink
from rtc_agent.client.offer import SmallWebRtcSignaling
from rtc_agent.media import aiortc_shim as shim
from tests.client.reflector import LOOPBACK, Reflector, serving
from tests.virtual_clock import VirtualClock


async def test_packets_leave_when_the_link_says() -> None:
    spec = Impairment(loss=0.2, jitter_ms=40, reorder=0.2, duplicate=0.2)
    clock, left = VirtualClock(0.0), []

    async def send(data: bytes) -> None:
        left.append((clock.now(), data))

    uplink = Uplink(spec, clock)
    for number in range(100):
        uplink.carry(number.to_bytes(), send)
        await clock.run_for(0.02)
    await clock.run_for(1.0)
    link = Link(spec, "up")
    due = [(when, n.to_bytes()) for n in range(100) for when in link.carry(0.02 * n)]
    assert [data for _, data in left] == [data for _, data in sorted(due)]
    assert [when for when, _ in left] == pytest.approx([when for when, _ in sorted(due)])
    assert uplink.sent == 100 and 0 < uplink.lost < 50


async def test_what_is_under_way_is_forgotten_at_the_end() -> None:
    clock, left = VirtualClock(0.0), []

    async def send(data: bytes) -> None:
        left.append(data)

    uplink = Uplink(Impairment(delay_ms=100), clock)
    uplink.carry(b"x", send)
    await uplink.aclose()
    await clock.run_for(1.0)
    assert left == []


async def test_a_connection_that_is_gone_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def send(data: bytes) -> None:
        raise ConnectionError

    clock = VirtualClock(0.0)
    uplink = Uplink(Impairment(delay_ms=10), clock)
    uplink.carry(b"x", send)
    await clock.run_for(0.1)
    assert not [r for r in caplog.records if r.levelname in ("ERROR", "WARNING")]


def test_downlink_is_the_other_link() -> None:
    spec = Impairment(loss=0.5, jitter_ms=30)
    downlink, link = Downlink(spec), Link(spec, "down")
    assert [downlink.arrivals(n) for n in range(50)] == [link.carry(n) for n in range(50)]


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_a_real_call_over_a_lossy_link(direction: str) -> None:
    reflector = Reflector()
    spec = Impairment.parse(f"loss=0.2,duplicate=0.2,delay_ms=60,direction={direction}")
    async with serving(reflector) as url:
        client = CallClient(SmallWebRtcSignaling(url), ice=LOOPBACK, impairment=spec)
        async with client:
            await client.connect()
            await client.wait_ready()
            await client.wait_until(client.clock.now() + 2.5)
    packets = client.log.in_order()
    # What the mirror does not get it does not send: losses on the way up show as pauses.
    span = (packets[-1].timestamp - packets[0].timestamp) / 960 + 1
    assert 0.1 <= 1 - len(packets) / span <= 0.32
    gaps = packets[-1].sequence - packets[0].sequence + 1 - len(packets)
    assert (gaps > 0) is (direction == "down")
    # SRTP throws copies away on the way up.
    assert (client.log.duplicates > 0) is (direction == "down")


async def test_only_media_is_diverted() -> None:
    """The hook must let DTLS, STUN and RTCP alone, or no call would come up."""
    seen: list[int] = []

    class Transport:
        async def _send(self, data: bytes) -> None:
            seen.append(data[0])

    class Dtls:
        transport = Transport()

    class Sender:
        transport = Dtls()

    taken: list[bytes] = []
    assert shim.divert_media(Sender(), lambda data, send: taken.append(data))  # type: ignore[arg-type]
    media, rtcp, dtls, stun = b"\x80\x6f--", b"\x80\xc8--", b"\x16\xfe--", b"\x00\x01--"
    for data in (media, rtcp, dtls, stun, b"\x80"):
        await Dtls.transport._send(data)
    assert taken == [media]
    assert seen == [0x80, 0x16, 0x00, 0x80]
    await asyncio.sleep(0)
