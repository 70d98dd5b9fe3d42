"""Which bank suits a caller's packets."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.engine.placing import (
    FIRST_PACKETS,
    IN_TIME_S,
    PACKET_S,
    WITHIN_S,
    PacketTimes,
    first_packets,
    offsets_s,
    soonest,
)
from rtc_agent.engine.stepper import FRAME_S
from tests.engine.fakes import NumberedSource
from tests.virtual_clock import VirtualClock


@dataclass
class Bank:
    tick_s: float
    slots_free: int = 1

    def next_tick_s(self) -> float:
        return self.tick_s


@pytest.mark.parametrize("banks", range(1, 9))
def test_ticks_lie_differently_to_packets_and_never_close_together(banks: int) -> None:
    ticks = offsets_s(banks, to_packets=True)
    gaps = [b - a for a, b in zip(ticks, [*ticks[1:], FRAME_S], strict=True)]
    assert min(gaps) > 0.74 * FRAME_S / banks
    places = sorted(tick % PACKET_S for tick in ticks)
    # Six banks would have to be closer together than that for each to have a place of its own.
    apart = PACKET_S / (3 if banks == 6 else banks)
    for place in places:
        steps = place / apart
        assert steps == pytest.approx(round(steps), abs=1e-6)
    assert len({round(p / apart) % round(PACKET_S / apart) for p in places}) == min(
        banks, round(PACKET_S / apart)
    )


def test_otherwise_they_are_evenly_spread() -> None:
    assert offsets_s(4, to_packets=False) == pytest.approx([0, 0.02, 0.04, 0.06])


@given(due_s=st.floats(0, 1_000), banks=st.sampled_from([2, 4, 5, 8]))
def test_no_caller_waits_longer_than_banks_are_apart(due_s: float, banks: int) -> None:
    times = PacketTimes(due_s, PACKET_S)
    ticks = [Bank(2_000 + offset_s) for offset_s in offsets_s(banks, to_packets=True)]
    chosen = soonest(ticks, 0, times)
    assert times.wait_s(ticks[chosen].tick_s) <= PACKET_S / banks + 1e-6


@given(
    due_s=st.floats(0, 1_000),
    every_ms=st.sampled_from([2.5, 5, 10, 20, 30, 40, 60, 120]),
    banks=st.sampled_from([2, 4]),
)
def test_the_bank_is_chosen_by_the_wait_at_all_of_its_ticks(
    due_s: float, every_ms: float, banks: int
) -> None:
    every_s = every_ms / 1e3
    ticks = [Bank(2_000 + offset_s) for offset_s in offsets_s(banks, to_packets=True)]

    def waited_s(bank: Bank) -> float:
        """On average, over as many ticks as it takes for packets of any length to lie the same."""
        reads_s = [bank.tick_s + tick * FRAME_S - due_s - IN_TIME_S for tick in range(6)]
        return sum(read_s % every_s for read_s in reads_s) / len(reads_s)

    chosen = soonest(ticks, 0, PacketTimes(due_s, every_s))
    # Where a packet comes at the very moment of a reading, either may be taken for the sooner.
    apart_s = min(waited_s(bank) for bank in ticks) + 2e-4
    edge = any(abs((b.tick_s - due_s - IN_TIME_S + 1e-4) % 0.0025) < 2e-4 for b in ticks)
    assert edge or waited_s(ticks[chosen]) <= apart_s


@pytest.mark.parametrize("every_s", [0.0025, 0.005])
def test_a_call_does_not_move_for_nothing(every_s: float) -> None:
    ticks = [Bank(2_000 + offset_s) for offset_s in offsets_s(4, to_packets=True)]
    for own in range(4):
        assert soonest(ticks, own, PacketTimes(1.0011, every_s)) == own


def test_a_bank_without_room_is_none_to_choose_but_for_ones_own() -> None:
    times = PacketTimes(0.0, PACKET_S)
    soon, later, latest = (1.0 + IN_TIME_S + wait_s for wait_s in (0.001, 0.006, 0.011))
    banks = [Bank(soon, 0), Bank(latest, 0), Bank(later, 1)]
    assert soonest(banks, 0, times) == 0
    assert soonest(banks, 1, times) == 2
    banks[2].slots_free = 0
    assert soonest(banks, 1, times) == 1


def test_a_call_stays_where_it_is_as_well_off() -> None:
    banks = [Bank(1.0), Bank(1.0), Bank(1.0)]
    assert soonest(banks, 1, PacketTimes(0.3, PACKET_S)) == 1


class Arriving(NumberedSource):
    """Packets come one after another on a virtual clock."""

    in_packets = True

    def __init__(self, clock: VirtualClock, first_s: float) -> None:
        super().__init__()
        self.clock, self.first_s = clock, first_s

    def packet_times(self, packets: int) -> PacketTimes | None:
        arrived = 1 + int((self.clock.now() - self.first_s) // PACKET_S)
        return PacketTimes(self.first_s, PACKET_S) if arrived >= packets else None


@pytest.mark.parametrize(
    ("first_after_s", "waited_s", "known"),
    [
        (-1.0, 0.0, True),
        (0.015, 0.015 + (FIRST_PACKETS - 1) * PACKET_S, True),
        # One has come by then: better than nothing.
        (WITHIN_S - 0.005, WITHIN_S, True),
        (5.0, WITHIN_S, False),
    ],
)
async def test_first_packets_are_waited_for_a_short_while(
    first_after_s: float, waited_s: float, known: bool
) -> None:
    clock = VirtualClock()
    began_s = clock.now()
    times: list[PacketTimes | None] = []

    async def wait() -> None:
        times.append(await first_packets(Arriving(clock, began_s + first_after_s), clock))
        times.append(PacketTimes(clock.now(), 0.0))

    task = asyncio.create_task(wait())
    await clock.run_for(1.0)
    await task
    found, ended = times
    assert (found is not None) is known
    assert ended is not None and waited_s <= ended.due_s - began_s < waited_s + 0.011


async def test_a_source_without_packets_is_not_waited_for() -> None:
    assert await first_packets(NumberedSource(), VirtualClock()) is None
