from __future__ import annotations

from signaling.sessions import MAX_ENTRIES, SessionTable
from tests.virtual_clock import VirtualClock


def test_values_are_there_until_their_time_has_passed() -> None:
    clock = VirtualClock()
    table: SessionTable[str] = SessionTable(clock, "ek_")
    entry = table.add("wish", 10)
    assert entry.startswith("ek_") and len(entry) > 30
    assert table.get(entry) == "wish"
    assert table.get("ek_other") is None
    clock.advance(10)
    assert table.get(entry) is None
    table.add("another", 10)
    assert len(table) == 1


def test_what_is_in_use_outlives_its_time() -> None:
    clock = VirtualClock()
    table = SessionTable[str](clock, in_use=lambda value: value == "busy")
    busy, idle = table.add("busy", 1), table.add("idle", 1)
    clock.advance(100)
    assert table.get(busy) == "busy" and table.get(idle) is None


def test_it_never_holds_more_than_its_bound_and_gives_up_the_oldest() -> None:
    table: SessionTable[int] = SessionTable(VirtualClock())
    first = table.add(0, 1)
    for n in range(MAX_ENTRIES):
        table.add(n, 10)
    assert len(table) == MAX_ENTRIES
    assert table.get(first) is None
