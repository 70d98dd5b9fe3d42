"""Which bank a call goes on in: the one whose tick comes soonest after the caller's packets.

Packets come every 20 ms and a tick every 80, so that how long the newest packet waits for its tick
is the same all call long. Banks whose ticks lie differently to packets let a call choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Protocol, runtime_checkable

from rtc_agent.clock import Clock
from rtc_agent.engine.client import FrameSource
from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE

PACKET_S = 0.02
"""Between a caller's packets, as nearly everybody sends them."""
IN_TIME_S = 0.008
"""Before the reading of a frame by which its last packet is to be due: so late are packets now and
then, and one that was missed costs the wait for a packet more."""
FIRST_PACKETS = 3
"""Of which the soonest says when packets are due."""
WITHIN_S = 0.1
"""They are waited for so long at most: a caller may send nothing at all."""
LOOK_EVERY_S = 0.01


@dataclass(frozen=True, slots=True)
class PacketTimes:
    """When a caller's packets are due."""

    due_s: float
    """One of them, on the engine's clock, if nothing holds it up."""
    every_s: float
    """Seconds between two."""

    def wait_s(self, read_s: float) -> float:
        """How long the newest packet that is here in good time has waited when it is read, at that
        of all ticks of a bank at which it waits least: longer packets than of 20 ms lie differently
        to each tick of it, and all that differs between banks is this."""
        samples = round(self.every_s * SAMPLE_RATE)
        return (read_s - self.due_s - IN_TIME_S) % (gcd(FRAME_SAMPLES, samples) / SAMPLE_RATE)


@runtime_checkable
class PacketedSource(FrameSource, Protocol):
    """A source whose sound may come in packets."""

    @property
    def in_packets(self) -> bool:
        """Whether it does; there is nothing to wait for otherwise."""
        ...

    def packet_times(self, packets: int) -> PacketTimes | None:
        """None while fewer than so many packets have come."""
        ...


class Ticking(Protocol):
    """A bank as a call that chooses sees it."""

    @property
    def slots_free(self) -> int: ...

    def next_tick_s(self) -> float: ...


async def first_packets(source: FrameSource, clock: Clock) -> PacketTimes | None:
    """When packets of a caller who has just connected are due; None if none come."""
    if not isinstance(source, PacketedSource) or not source.in_packets:
        return None
    until_s = clock.now() + WITHIN_S
    while (times := source.packet_times(FIRST_PACKETS)) is None and clock.now() < until_s:
        await clock.sleep_until(clock.now() + LOOK_EVERY_S)
    return times or source.packet_times(1)


def soonest(banks: Sequence[Ticking], own: int, times: PacketTimes) -> int:
    """The number of the bank with a free slot whose tick comes soonest after packets; the call's
    own counts as one."""
    open_to_it = [i for i, bank in enumerate(banks) if i == own or bank.slots_free]
    # Where two ticks suit alike, the clocks' rounding is no reason to move.
    waits_s = {i: round(times.wait_s(banks[i].next_tick_s()), 4) for i in open_to_it}
    return min(open_to_it, key=lambda i: (waits_s[i], i != own))


def offsets_s(banks: int, *, to_packets: bool) -> list[float]:
    """When each bank ticks after the first.

    Args:
        to_packets: ticks are to differ in how they lie to packets of 20 ms; otherwise they are only
            evenly spread over a frame.
    """
    apart_s = FRAME_S / banks
    if to_packets and gcd(banks, round(FRAME_S / PACKET_S)) > 1 and banks % 3:
        apart_s = (FRAME_S - PACKET_S) / banks
    return [bank * apart_s for bank in range(banks)]
