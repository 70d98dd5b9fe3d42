"""Replicas by load: at once when there is more of it, slowly when there is less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.cluster.autoscale import Autoscaler, replicas_for
from rtc_agent.cluster.settings import ClusterSettings

BOUNDS = ClusterSettings(min_replicas=2, max_replicas=6, occupancy=0.5, scale_in_after_s=100)


@given(st.integers(0, 10_000), st.integers(1, 64), st.floats(0.1, 1))
def test_so_many_are_enough_and_one_fewer_is_not(calls: int, slots: int, share: float) -> None:
    replicas = replicas_for(calls, slots, share)
    assert calls <= replicas * slots * share * 1.000_001
    assert replicas == 0 or calls > (replicas - 1) * slots * share * 0.999_999


@pytest.mark.parametrize(("calls", "replicas"), [(0, 2), (20, 2), (21, 3), (41, 5), (900, 6)])
def test_more_load_is_answered_at_once_within_bounds(calls: int, replicas: int) -> None:
    assert Autoscaler().wanted(BOUNDS, 2, calls, 20, 0.0) == replicas


def test_less_load_takes_one_away_at_a_time_and_only_if_it_stays() -> None:
    scaler = Autoscaler()
    assert [scaler.wanted(BOUNDS, 5, 0, 20, t) for t in (0.0, 99.0)] == [5, 5]
    assert scaler.wanted(BOUNDS, 5, 41, 20, 99.5) == 5, "busy once more"
    assert [scaler.wanted(BOUNDS, 5, 0, 20, t) for t in (100.0, 199.0, 200.0)] == [5, 5, 4]
    assert [scaler.wanted(BOUNDS, 4, 0, 20, t) for t in (201.0, 300.0)] == [4, 3]


def test_without_bounds_load_decides_nothing() -> None:
    assert Autoscaler().wanted(ClusterSettings(replicas=3), 3, 900, 4, 0.0) == 3


def test_nothing_is_decided_before_it_is_known_what_a_replica_holds() -> None:
    assert Autoscaler().wanted(BOUNDS, 4, 0, 0, 1_000.0) == 4
