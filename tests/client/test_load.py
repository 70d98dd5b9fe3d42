from __future__ import annotations

import asyncio
import itertools
import json
import sys
from dataclasses import replace

import pytest
from aiohttp import web

from rtc_agent.client.load import CallOutcome, LoadOrder, LoadReport, load, phase_s
from rtc_agent.client.measurement import Chirp, Measurement
from rtc_agent.errors import InvalidRequest
from tests.client.reflector import LOOPBACK, Reflector, serving


def order(url: str = "http://x", **changes: object) -> LoadOrder:
    made = LoadOrder(url=url, calls=3, seconds=2.0, processes=2, ice=LOOPBACK)
    return replace(made, **changes)  # type: ignore[arg-type]


async def test_calls_from_two_processes() -> None:
    reflector = Reflector()
    async with serving(reflector) as url:
        report = await load(order(url))
    fields = report.as_dict()
    assert (fields["calls"], fields["failed_calls"], fields["failures"]) == (3, 0, {})
    assert len(reflector.offers) == 3
    assert fields["mouth_to_ear_ms"]["n"] + fields["lost_chirps"] == 3 * 4  # type: ignore[index]
    assert fields["call_p50_ms"]["n"] == 3  # type: ignore[index]
    assert 18 <= fields["packet_interval_ms"]["p50"] <= 22  # type: ignore[index]
    assert report.server_cpu_s is not None and report.server_cpu_s > 0
    assert report.callers_cpu_s > 0


@pytest.mark.parametrize("calls", [2, 8, 16, 64, 240])
def test_callers_are_spread_evenly_over_a_packet(calls: int) -> None:
    phases = sorted(phase_s(number) for number in range(calls))
    around = [*phases, phases[0] + 0.020]
    assert 0 <= phases[0] and phases[-1] < 0.020
    assert max(b - a for a, b in itertools.pairwise(around)) < 2 * 0.020 / calls


async def test_refused_calls_are_counted_with_their_reason() -> None:
    def refuse() -> web.Response:
        return web.json_response({"error": {"message": "full"}}, status=503)

    async with serving(Reflector(refuse=refuse)) as url:
        report = await load(order(url, processes=1, calls=2))
    fields = report.as_dict()
    assert (fields["failed_calls"], fields["failures"]) == (2, {"call_refused": 2})
    assert fields["mouth_to_ear_ms"]["n"] == 0  # type: ignore[index]
    assert fields["server_cpu_percent_a_call"] is None


def test_figures_over_all_calls() -> None:
    def outcome(*delays: float | None) -> CallOutcome:
        chirps = tuple(Chirp(0.4 * n, delay) for n, delay in enumerate(delays))
        arrivals = ((0.0, 0.0), (0.02, 0.0), (0.05, 0.01))
        server = {"concealed_ms": 20.0, "underruns": 1}
        measured = Measurement(
            chirps, concealed_ms=10, arrivals_s=arrivals, server=server, left_out_frames=2
        )
        return CallOutcome(connect_ms=50, ready_ms=60, measured=measured)

    outcomes = (outcome(100, 110, 120), outcome(130, None, 130), CallOutcome(failure="no_media"))
    fields = LoadReport(order(seconds=10.0), outcomes, 4.0, 2**25, 1.0).as_dict()
    assert fields["mouth_to_ear_ms"]["p50"] == 120  # type: ignore[index]
    assert fields["call_p50_spread_ms"] == 20
    assert fields["lost_chirps"] == 1
    assert fields["concealed_ms"] == 60
    assert fields["server_counts"] == {
        "left_out_frames": 4,
        "underruns": 2,
        "packets_lost": 0,
        "concealed_ms": 40,
        "dropped_ms": 0,
    }
    assert fields["packet_interval_ms"]["max"] == 30  # type: ignore[index]
    assert (fields["failed_calls"], fields["failures"]) == (1, {"no_media": 1})
    assert fields["server_cpu_percent_a_call"] == 20
    assert fields["server_rss_mib"] == 32


@pytest.mark.parametrize(
    "changes", [{"calls": 0}, {"seconds": 1.0}, {"processes": 0}, {"processes": 9}]
)
def test_nonsense_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        order(**changes)


def test_processes_are_few() -> None:
    assert order(processes=None, calls=1).process_count == 1
    assert order(processes=None, calls=1_000).process_count <= 500


async def test_command() -> None:
    async with serving(Reflector()) as url:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "rtc_agent", "load", url, "--calls", "2", "--seconds", "2", "--ramp", "0.05"),
            *("--ice-host", "127.0.0.1", "--json"),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
    assert process.returncode == 0
    report = json.loads(out.decode().splitlines()[-1])
    assert report["failed_calls"] == 0 and report["mouth_to_ear_ms"]["n"] > 0
    assert {"underruns", "concealed_ms", "lost_chirps", "server_cpu_s"} <= set(report)
