"""Slots and their generations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.engine.slots import Lease, SlotTable, server_full
from rtc_agent.errors import ServerFull


@given(st.integers(1, 8), st.lists(st.integers(0, 40), max_size=200))
def test_no_slot_is_ever_held_twice_and_stale_leases_free_nothing(
    size: int, choices: list[int]
) -> None:
    table = SlotTable(size)
    held: list[Lease] = []
    stale: list[Lease] = []
    for choice in choices:
        if choice % 3 and held:
            lease = held.pop(choice % len(held))
            table.release(lease)
            stale.append(lease)
        else:
            try:
                held.append(table.take())
            except ServerFull:
                assert len(held) == size
        for lease in stale:
            table.release(lease)
        assert len({lease.slot for lease in held}) == len(held)
        assert all(table.holds(lease) for lease in held)
        assert not any(table.holds(lease) for lease in stale)
        assert table.free == size - len(held)


def test_a_table_needs_a_slot() -> None:
    with pytest.raises(ValueError):
        SlotTable(0)


def test_a_refusal_is_a_sentence() -> None:
    assert "the one call it can hold is in progress" in server_full(1).message
    assert "all 4 calls it can hold at once are in progress" in server_full(4).message
