"""Keys in RTP: each press once, whatever is repeated, lost or late."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.protocol.telephone_event import KeyDetector, TelephoneEvent, parse

KEYS = "0123456789*#ABCD"


def packets(key: str, timestamp: int, updates: int = 3) -> list[tuple[bytes, int]]:
    event = KEYS.index(key)
    steps = [
        TelephoneEvent(event, end=False, volume=10, duration=160 * (i + 1)) for i in range(updates)
    ]
    steps += [TelephoneEvent(event, end=True, volume=10, duration=160 * (updates + 1))] * 3
    return [(step.encode(), timestamp) for step in steps]


@given(st.binary(max_size=12))
def test_any_payload_is_read_or_refused(payload: bytes) -> None:
    event = parse(payload)
    assert (event is None) == (len(payload) < 4)
    if event is not None:
        assert event.encode() == payload[:1] + bytes([payload[1] & 0xBF]) + payload[2:4]


@given(st.text(KEYS, min_size=1, max_size=8), st.integers(0, 2**32 - 1), st.randoms())
def test_each_press_counts_once_under_loss_and_repetition(
    keys: str, start: int, chance: random.Random
) -> None:
    detector = KeyDetector()
    heard = ""
    for i, key in enumerate(keys):
        sent = packets(key, (start + 1600 * i) % 2**32)
        arrived = [p for p in sent if chance.random() > 0.5] or [chance.choice(sent)]
        arrived += [chance.choice(arrived)]
        for payload, timestamp in arrived:
            heard += detector.push(payload, timestamp) or ""
    assert heard == keys


def test_a_straggler_of_the_press_before_is_no_press() -> None:
    detector = KeyDetector()
    old, new = packets("5", 1000), packets("6", 3000)
    heard = [detector.push(*old[0]), detector.push(*new[0]), detector.push(*old[-1])]
    assert heard == ["5", "6", None]


def test_the_same_key_twice_is_two_presses() -> None:
    detector = KeyDetector()
    heard = [detector.push(*packets("1", ts)[0]) for ts in (1000, 2600)]
    assert heard == ["1", "1"]


def test_a_hook_flash_is_no_key() -> None:
    assert KeyDetector().push(TelephoneEvent(16, True, 0, 400).encode(), 0) is None
