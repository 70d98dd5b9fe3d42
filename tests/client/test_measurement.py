"""Measuring on made-up packet logs, where every delay is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rtc_agent.client.chirps import ProbeSignal
from rtc_agent.client.measurement import Measurement, measure, payloads
from rtc_agent.client.messages import ReceivedMessage
from rtc_agent.client.packets import PacketLog
from rtc_agent.client.recording import Recording
from rtc_agent.media.codecs import CODECS, encoder_for

OPUS = CODECS["opus"]
OPUS_MS = 6.5
SIGNAL = ProbeSignal(24_000)
SECONDS = 6.0
PACKETS = payloads(SIGNAL, SECONDS, encoder_for("opus"))


def echoed(
    delays_s: Any = lambda number: 0.05, drift_ppm: float = 0.0, lost: tuple[int, ...] = ()
) -> Measurement:
    """Measure a call whose packets come back after `delays_s(number)` each."""
    log = PacketLog()
    for number, payload in enumerate(PACKETS):
        sent_s = 100 + (number + 1) * 0.02 / (1 + drift_ppm * 1e-6)
        if number not in lost:
            log.add(sent_s + delays_s(number), number, number * 960, payload)
    before = {"type": "stats", "seq": 1, "underruns": 2, "packets_lost": 1, "jitter_ms": 3.0}
    numbers = {"packets_lost": 4, "concealed_ms": 1.5, "underruns": 3, "jitter_ms": 2.0}
    overload = {"type": "notice", "code": "overload", "frames": 2}
    stats = {"type": "stats", "seq": 3, "frame": 7, "t_ms": 5, **numbers}
    client: Any = SimpleNamespace(
        log=log,
        messages=[
            ReceivedMessage(99.5, before),
            ReceivedMessage(104.0, stats),
            ReceivedMessage(105.0, {"type": "text"}),
            *(ReceivedMessage(at_s, overload) for at_s in (99.0, 101.0, 102.0)),
        ],
        recording=lambda origin_s, samples: Recording(log.in_order(), OPUS, origin_s, samples),
    )
    return measure(client, SIGNAL, 100.0, SECONDS, trailing_s=1.0, drift_ppm=drift_ppm)


def test_a_constant_delay_is_measured_exactly() -> None:
    measured = echoed()
    assert len(measured.delays_ms) == SIGNAL.count(SECONDS) and measured.lost_chirps == 0
    assert all(d == pytest.approx(70 + OPUS_MS, abs=0.7) for d in measured.delays_ms)
    assert measured.dropouts == ()
    assert (measured.lost_packets, measured.concealed_ms) == (0, 0)


def test_held_up_packets_are_heard_late() -> None:
    # From packet 150 on, 3 s, everything is 40 ms later.
    measured = echoed(lambda number: 0.05 if number < 150 else 0.09)
    early = [c.mouth_to_ear_ms for c in measured.chirps if c.said_s < 2.8]
    late = [c.mouth_to_ear_ms for c in measured.chirps if c.said_s > 3.1]
    assert early == pytest.approx([76.5] * len(early), abs=0.7)
    assert late == pytest.approx([116.5] * len(late), abs=0.7)


@pytest.mark.parametrize("ppm", [-5_000, 5_000])
def test_the_callers_own_drift_is_no_delay(ppm: float) -> None:
    delays = echoed(drift_ppm=ppm).delays_ms
    assert len(delays) == SIGNAL.count(SECONDS)
    # 30 ms over the 6 s, were it not taken into account.
    assert max(delays) - min(delays) < 1.5


def test_losses_are_counted_and_concealed() -> None:
    measured = echoed(lost=(30, 80, 81, 200))
    assert measured.lost_packets == 4
    assert measured.concealed_ms == pytest.approx(80)
    assert measured.received_packets == len(PACKETS) - 4
    assert measured.lost_chirps == 0


def test_a_long_outage_loses_its_chirps_and_leaves_a_hole() -> None:
    measured = echoed(lost=tuple(range(100, 140)))
    assert measured.lost_chirps in (1, 2)
    assert len(measured.dropouts) == 1
    # A pause of the signal may follow on it.
    assert 0.4 < measured.dropouts[0].length_s < 1.2


def test_lateness_of_packets() -> None:
    measured = echoed(lambda number: 0.08 if number % 10 == 5 else 0.05)
    late = [late for _, late in measured.arrivals_s]
    assert (min(late), max(late)) == pytest.approx((0, 0.03), abs=1e-6)
    assert len(late) == len(PACKETS)


def test_the_servers_newest_numbers_count_from_the_signals_beginning() -> None:
    expected = {"packets_lost": 3, "concealed_ms": 1.5, "underruns": 1, "jitter_ms": 2.0}
    assert echoed().server == expected


def test_what_the_server_left_out_before_is_not_counted() -> None:
    assert echoed().left_out_frames == 4
