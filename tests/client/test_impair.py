from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.client.impair import Impairment, Link
from rtc_agent.errors import InvalidRequest

specs = st.builds(
    Impairment,
    loss=st.floats(0, 0.4),
    burst=st.sampled_from([0.0, 1.0, 2.5, 8.0]),
    delay_ms=st.floats(0, 200),
    jitter_ms=st.floats(0, 100),
    reorder=st.floats(0, 1),
    duplicate=st.floats(0, 1),
    seed=st.integers(0, 9),
)


def fates(spec: Impairment, packets: int = 3_000) -> list[tuple[float, ...]]:
    link = Link(spec)
    return [link.carry(0.02 * n) for n in range(packets)]


def test_a_perfect_network_delivers_at_once_and_once() -> None:
    assert fates(Impairment(), 50) == [(0.02 * n,) for n in range(50)]


@given(specs)
@settings(max_examples=50, deadline=None)
def test_same_seed_same_network(spec: Impairment) -> None:
    assert fates(spec, 100) == fates(spec, 100)


@given(specs)
@settings(max_examples=50, deadline=None)
def test_nothing_arrives_before_it_was_sent_or_out_of_bounds(spec: Impairment) -> None:
    delay_s = max(spec.delay_ms, spec.jitter_ms) / 1e3
    # A packet can queue behind an earlier one, which itself was held at most this long.
    latest_s = delay_s + (spec.jitter_ms + spec.reorder_ms + 10) / 1e3
    for n, arrivals in enumerate(fates(spec, 300)):
        for arrival_s in arrivals:
            assert -1e-9 <= arrival_s - 0.02 * n <= latest_s + 1e-9


@given(specs.map(lambda spec: Impairment(jitter_ms=spec.jitter_ms, loss=spec.loss)))
@settings(max_examples=50, deadline=None)
def test_without_reordering_order_is_kept(spec: Impairment) -> None:
    arrivals = [a for packet in fates(spec, 300) for a in packet]
    assert arrivals == sorted(arrivals)


@pytest.mark.parametrize("burst", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("loss", [0.01, 0.1, 0.3])
def test_loss_is_what_was_asked_for(loss: float, burst: float) -> None:
    lost = [not arrivals for arrivals in fates(Impairment(loss=loss, burst=burst), 200_000)]
    assert sum(lost) / len(lost) == pytest.approx(loss, rel=0.1)
    if burst:
        runs = [len(list(run)) for gone, run in groupby(lost) if gone]
        assert sum(runs) / len(runs) == pytest.approx(burst, rel=0.12)


def test_one_packet_can_be_lost() -> None:
    lost = [n for n, packet in enumerate(fates(Impairment(lose_packet=7), 100), 1) if not packet]
    assert lost == [7]


def test_reordered_packets_are_overtaken() -> None:
    arrivals = [a for packet in fates(Impairment(reorder=0.05), 10_000) for a in packet]
    overtaken = sum(late > next_ for late, next_ in zip(arrivals, arrivals[1:], strict=False))
    assert overtaken / 10_000 == pytest.approx(0.05, rel=0.2)


def test_duplicates() -> None:
    copies = [len(packet) for packet in fates(Impairment(duplicate=0.2), 10_000)]
    assert set(copies) == {1, 2}
    assert copies.count(2) / 10_000 == pytest.approx(0.2, rel=0.1)


def test_jitter_spreads_evenly_around_the_delay() -> None:
    spec = Impairment(delay_ms=50, jitter_ms=9)
    delays = [(a - 0.02 * n) * 1e3 for n, p in enumerate(fates(spec, 20_000)) for a in p]
    assert min(delays) >= 41 and max(delays) <= 59
    assert sum(delays) / len(delays) == pytest.approx(50, abs=0.3)


def test_one_setting_leaves_the_fates_of_others_alone() -> None:
    lost = [not p for p in fates(Impairment(loss=0.1))]
    assert lost == [not p for p in fates(Impairment(loss=0.1, duplicate=0.5, jitter_ms=20))]


def test_directions_have_different_fates() -> None:
    spec = Impairment(loss=0.5)
    up, down = Link(spec, "up"), Link(spec, "down")
    assert [up.carry(n) for n in range(50)] != [down.carry(n) for n in range(50)]


def test_parse() -> None:
    spec = Impairment.parse(
        "loss=0.02, jitter_ms=30,reorder=0.05,dtx=1,drift_ppm=-300,direction=both"
    )
    assert spec == Impairment(
        loss=0.02, jitter_ms=30, reorder=0.05, dtx=True, drift_ppm=-300, direction="both"
    )
    assert Impairment.parse("") == Impairment()
    assert isinstance(Impairment.parse("seed=7").seed, int)


@pytest.mark.parametrize(
    "text",
    [
        "los=0.1",
        "loss",
        "loss=",
        "loss=much",
        "loss=1.5",
        "loss=nan",
        "jitter_ms=-1",
        "delay_ms=1e9",
        "direction=sideways",
        "burst=0.5",
        "loss=0.9,burst=2",
        "drift_ppm=20000",
        "lose_packet=-1",
    ],
)
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Impairment.parse(text)


def test_on() -> None:
    lossy = Impairment(loss=0.1)
    assert lossy.on("up") and not lossy.on("down")
    both = Impairment(delay_ms=1, direction="both")
    assert both.on("up") and both.on("down")


def test_what_only_the_sender_does_is_nothing_for_the_network_to_carry() -> None:
    assert not Impairment(dtx=True, drift_ppm=30, seed=5, direction="both").on("up")
