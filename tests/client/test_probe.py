from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rtc_agent.client.impair import Impairment
from rtc_agent.client.probe import ProbeOrder, ProbeReport, probe
from rtc_agent.errors import BadAudioFile, CallRefused, InvalidRequest
from tests.client.reflector import LOOPBACK, Reflector, serving


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtc_agent.client.probe.LISTEN_ON_S", 0.7)


def order(url: str, **changes: object) -> ProbeOrder:
    return replace(ProbeOrder(url=url, seconds=3.0, settle_s=0.1, ice=LOOPBACK), **changes)  # type: ignore[arg-type]


def least(report: ProbeReport) -> float:
    """The delay of the chirp that a busy test machine held up least."""
    return min(report.measured.delays_ms)


async def test_a_mirror_is_a_packet_and_a_codec_away() -> None:
    async with serving(Reflector()) as url:
        report = await probe(order(url))
    fields = report.as_dict()
    assert report.ok
    assert fields["lost_chirps"] == 0
    assert fields["mouth_to_ear_ms"]["n"] == len(report.measured.chirps) == 6  # type: ignore[index]
    # 20 ms of packet and 6.5 ms of Opus, and what this machine adds.
    assert 26 <= least(report) <= 26 + 40
    ear, sent = fields["mouth_to_ear_ms"], fields["send_to_arrival_ms"]
    assert sent["p50"] == pytest.approx(ear["p50"] - 20, abs=0.11)  # type: ignore[index]
    assert fields["concealed_ms"] == 0
    assert json.loads(json.dumps(fields)) == fields


async def test_delay_each_way_is_seen() -> None:
    async with serving(Reflector()) as url:
        near = await probe(order(url))
        far = await probe(order(url, impairment=Impairment(delay_ms=80, direction="both")))
    assert least(far) - least(near) == pytest.approx(160, abs=20)
    split = far.as_dict()["split_ms"]
    assert split["network_up"] >= 80 and split["network_down"] >= 80  # type: ignore[index]
    assert far.as_dict()["e_model"]["r"] < near.as_dict()["e_model"]["r"]  # type: ignore[index]


async def test_losses_on_the_way_back_are_concealed_and_counted() -> None:
    spec = Impairment(loss=0.05, direction="down")
    async with serving(Reflector()) as url:
        report = await probe(order(url, impairment=spec))
    assert report.measured.lost_packets > 0
    assert report.measured.concealed_ms == pytest.approx(20 * report.measured.lost_packets)
    assert report.as_dict()["e_model"]["loss_percent"] > 1  # type: ignore[index]


async def test_holes_that_a_server_leaves_are_underruns() -> None:
    # Packets 110 to 119 never come back: 200 ms, in a stretch where the pilot sounds or not.
    async with serving(Reflector(keep=lambda count: not 110 <= count < 120)) as url:
        report = await probe(order(url))
    holes = report.measured.dropouts
    assert len(holes) == 1
    assert holes[0].length_s == pytest.approx(0.2, abs=0.05)


async def test_phone() -> None:
    async with serving(Reflector()) as url:
        report = await probe(order(url, phone=True))
    assert report.as_dict()["codec"] == "PCMU"
    assert report.as_dict()["lost_chirps"] == 0
    assert report.measured.dropouts == ()


async def test_dtx() -> None:
    reflector = Reflector()
    async with serving(reflector) as url:
        report = await probe(order(url, impairment=Impairment(dtx=True)))
    assert report.as_dict()["lost_chirps"] == 0
    # Two thirds of the signal are silence, of which a twentieth is sent.
    assert report.measured.received_packets < 150


async def test_a_deaf_server_is_a_failed_check() -> None:
    async with serving(Reflector(keep=lambda count: False)) as url:
        report = await probe(order(url, seconds=2.0))
    assert not report.ok
    assert report.as_dict()["mouth_to_ear_ms"]["p50"] is None  # type: ignore[index]
    assert report.as_dict()["e_model"] is None


async def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiohttp import web

    async with serving(Reflector(refuse=lambda: web.Response(status=503, text="full"))) as url:
        with pytest.raises(CallRefused, match="full"):
            await probe(order(url))
        monkeypatch.setattr("rtc_agent.client.probe.quality_needs", lambda: None)
        with pytest.raises(BadAudioFile):
            await probe(order(url, speech=tmp_path / "none.wav"))
    with pytest.raises(InvalidRequest):
        ProbeOrder("http://x", seconds=0)


async def test_speech_is_scored(speech_wav: Path) -> None:
    pytest.importorskip("visqol", reason="the [tools] extra is not installed")
    async with serving(Reflector()) as url:
        report = await probe(order(url, seconds=2.0, speech=speech_wav))
    assert report.quality_mos is not None and report.quality_mos > 4


async def test_command(tmp_path: Path) -> None:
    async with serving(Reflector()) as url:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "rtc_agent", "probe", url, "--seconds", "2", "--ice-host", "127.0.0.1"),
            *("--impair", "jitter_ms=5", "--json"),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
    assert process.returncode == 0
    report = json.loads(out.decode().splitlines()[-1])
    assert {"mouth_to_ear_ms", "underruns", "concealed_ms", "lost_chirps"} <= set(report)
