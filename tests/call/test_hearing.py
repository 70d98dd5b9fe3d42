"""What is known of a caller's packets before and after there is a transport."""

from __future__ import annotations

import asyncio

from rtc_agent.call.hearing import HeardSource
from rtc_agent.engine.placing import PACKET_S, PacketTimes, first_packets
from tests.engine.fakes import NumberedSource
from tests.engine.test_placed import TimelySource
from tests.virtual_clock import VirtualClock


def test_packets_are_the_transports() -> None:
    heard = HeardSource()
    assert heard.packet_times(1) is None
    heard.attach(NumberedSource())
    # A stream has none.
    assert heard.packet_times(1) is None and not heard.in_packets
    source = TimelySource()
    heard.attach(source)
    source.times = PacketTimes(3.0, PACKET_S)
    heard.muted = True
    assert heard.packet_times(1) == source.times and heard.in_packets


async def test_packets_of_a_stream_are_not_waited_for() -> None:
    heard = HeardSource()
    heard.attach(NumberedSource())
    # On a clock that stands still, waiting would never end.
    async with asyncio.timeout(5):
        assert await first_packets(heard, VirtualClock()) is None
