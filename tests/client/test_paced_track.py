from __future__ import annotations

import asyncio

import av
import pytest
from aiortc.mediastreams import MediaStreamError

from rtc_agent.client.paced_track import PacedTrack
from rtc_agent.client.sources import NOT_SENT, PayloadSource, SilentPayload
from rtc_agent.media.codecs import CODECS
from tests.virtual_clock import VirtualClock

Sent = list[tuple[float, av.Packet]]


async def run(track: PacedTrack, clock: VirtualClock, sent: Sent) -> None:
    while True:
        packet = await track.recv()
        sent.append((clock.now(), packet))


async def test_a_source_is_said_in_real_time_from_the_next_packet_on() -> None:
    clock, sent = VirtualClock(100.0), []
    track = PacedTrack(SilentPayload(b"quiet"), clock, CODECS["opus"])
    task = asyncio.ensure_future(run(track, clock, sent))
    await clock.run_for(0.05)
    origin_s = track.play(PayloadSource([b"1", b"2", b"3"]))
    assert not track.finished.is_set()
    await clock.run_for(0.2)
    task.cancel()
    assert track.finished.is_set()
    payloads = [bytes(packet) for _, packet in sent]
    assert payloads[:6] == [b"quiet"] * 3 + [b"1", b"2", b"3"]
    assert payloads[6:] == [b"quiet"] * len(payloads[6:])
    assert [when for when, _ in sent] == pytest.approx([100 + 0.02 * n for n in range(len(sent))])
    assert [packet.pts for _, packet in sent] == [960 * n for n in range(len(sent))]
    # Said, then sent: the first packet leaves when its last sample has been spoken.
    assert origin_s == pytest.approx(sent[3][0] - 0.02)


@pytest.mark.parametrize("plays_first", [False, True])
async def test_packets_are_due_in_the_phase_asked_for(plays_first: bool) -> None:
    clock, sent = VirtualClock(100.013), []
    track = PacedTrack(SilentPayload(b"q"), clock, CODECS["opus"], phase_s=0.007)
    if plays_first:
        track.play(PayloadSource([b"1"]))
    task = asyncio.ensure_future(run(track, clock, sent))
    await clock.run_for(0.2)
    task.cancel()
    first_s = 100.047 if plays_first else 100.027
    expected = [first_s + 0.02 * n for n in range(len(sent))]
    assert [when for when, _ in sent] == pytest.approx(expected, abs=1e-6)


async def test_lateness_is_made_up_for_and_measured() -> None:
    clock, sent = VirtualClock(100.0), []
    track = PacedTrack(SilentPayload(b"q"), clock, CODECS["PCMU".lower()])
    task = asyncio.ensure_future(run(track, clock, sent))
    await clock.run_for(0.1)
    clock.advance(0.5)
    await clock.run_for(0.1)
    task.cancel()
    late = [when - (100 + 0.02 * n) for n, (when, _) in enumerate(sent)]
    assert max(late) == pytest.approx(track.worst_lateness_s)
    assert 0.45 < track.worst_lateness_s <= 0.5
    assert late[-1] == pytest.approx(0)
    assert [packet.pts for _, packet in sent] == [160 * n for n in range(len(sent))]


async def test_dtx_skips_time() -> None:
    clock, sent = VirtualClock(100.0), []
    track = PacedTrack(SilentPayload(b"q"), clock, CODECS["opus"])
    track.play(PayloadSource([b"1", NOT_SENT, NOT_SENT, b"2"]))
    task = asyncio.ensure_future(run(track, clock, sent))
    await clock.run_for(0.085)
    task.cancel()
    assert [(bytes(p), p.pts) for _, p in sent[:2]] == [(b"1", 0), (b"2", 2880)]
    assert sent[1][0] - sent[0][0] == pytest.approx(0.06)


@pytest.mark.parametrize("ppm", [-300, 300])
async def test_a_drifting_senders_clock(ppm: float) -> None:
    clock, sent = VirtualClock(0.0), []
    track = PacedTrack(SilentPayload(b"q"), clock, CODECS["opus"], drift_ppm=ppm)
    task = asyncio.ensure_future(run(track, clock, sent))
    await clock.run_for(60.001)
    task.cancel()
    when, packet = sent[-1]
    assert packet.pts / 48_000 / when == pytest.approx(1 + ppm * 1e-6, abs=1e-9)


async def test_a_stopped_track_ends() -> None:
    track = PacedTrack(SilentPayload(b"q"), VirtualClock(), CODECS["opus"])
    track.stop()
    with pytest.raises(MediaStreamError):
        await track.recv()
