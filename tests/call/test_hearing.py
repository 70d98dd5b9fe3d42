"""What is known of a caller's packets before and after there is a transport."""

from __future__ import annotations

from rtc_agent.call.hearing import HeardSource
from rtc_agent.engine.placing import PACKET_S, PacketTimes
from tests.engine.fakes import NumberedSource
from tests.engine.test_placed import PacketedSource


def test_packets_are_the_transports() -> None:
    heard = HeardSource()
    assert heard.packet_times(1) is None
    heard.attach(NumberedSource())
    # A stream has none.
    assert heard.packet_times(1) is None
    source = PacketedSource()
    heard.attach(source)
    source.times = PacketTimes(3.0, PACKET_S)
    heard.muted = True
    assert heard.packet_times(1) == source.times
