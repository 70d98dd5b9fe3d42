"""Calls over loopback between a caller and a `WebRtcPeer`."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import resource
import socket
import threading

import numpy as np
import pytest

from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES
from rtc_agent.errors import (
    InvalidOffer,
    InvalidRequest,
    RtcAgentError,
    ServerFull,
    UnsupportedOffer,
)
from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media.codecs import CODECS, OPUS
from rtc_agent.media.ice import IceSettings
from rtc_agent.media.levels import dbfs
from rtc_agent.media.peer import MAX_BUFFERED_BYTES, MAX_MESSAGE_BYTES, WebRtcPeer
from rtc_agent.protocol import sdp
from tests.media.peers import LOOPBACK, Caller, Events, connect
from tests.media.simulation import delay_of, noise, read_speech, similarity

PAYLOAD_TYPE = {"opus": 96, "g722": 9, "pcmu": 0, "pcma": 8}


def only_codec(name: str):  # type: ignore[no-untyped-def]
    """An edit that leaves one codec in an offer."""
    keep = str(PAYLOAD_TYPE[name])

    def edit(offer: str) -> str:
        lines = []
        for line in offer.split("\r\n"):
            if line.startswith("m=audio"):
                line = " ".join([*line.split(" ")[:3], keep])
            if (match := re.match(r"a=(rtpmap|fmtp):(\d+) ", line)) and match[2] != keep:
                continue
            lines.append(line)
        return "\r\n".join(lines)

    return edit


@pytest.mark.parametrize("name", list(CODECS))
async def test_audio_both_ways(name: str) -> None:
    """Echoed at every tick: both sides hear the other, at one steady delay."""
    caller, peer, _ = await connect(CODECS[name], edit_offer=only_codec(name))
    assert peer.codec is CODECS[name]
    source = read_speech()[: 30 * FRAME_SAMPLES]
    frames = source.reshape(-1, FRAME_SAMPLES)
    agent, ear = [], []
    clock = caller.clock
    start = clock.now()
    for tick in range(len(frames) + 6):
        await clock.sleep_until(start + tick * FRAME_S)
        if tick < len(frames):
            caller.track.play(frames[tick])
        heard = peer.source.reserve()
        peer.source.commit()
        agent.append(heard)
        peer.play(heard)
        assert caller.receiver is not None
        ear.append(caller.receiver.read(FRAME_SAMPLES, clock.now()))
    stats = peer.stats()
    await caller.close()
    await peer.aclose()
    for heard in (np.concatenate(agent), np.concatenate(ear)):
        # In pieces, the better half of them: where this machine stalls, the path makes up sound or
        # inserts time, and pieces have seams.
        likeness = []
        for at in range(20_000, 40_000, 2_400):
            lag = delay_of(heard, source, at, 2_400)
            if dbfs(heard[at : at + 2_400]) < -45:
                continue
            likeness.append(similarity(heard[at : at + 2_400], source[at - lag :], 0))
        assert len(likeness) >= 4
        assert np.mean(sorted(likeness)[len(likeness) // 2 :]) > 0.85
    assert stats.packets_received > 100
    assert stats.packets_lost == 0
    assert stats.packets_sent > 100


async def test_timestamps_on_the_wire_step_by_a_packet() -> None:
    caller, peer, _ = await connect()
    for _ in range(20):
        peer.play(noise(FRAME_S))
        await asyncio.sleep(FRAME_S)
    await caller.close()
    await peer.aclose()
    order = sorted(caller.packets, key=lambda p: p[1])
    steps = np.diff([p[2] for p in order]) % 2**32
    assert len(order) > 60
    # A stall of this machine above 40 ms shows as a step of whole packets, never as a repeat.
    assert (steps % 960 == 0).all() and (steps > 0).all()
    assert np.median(steps) == 960
    assert {len(p[3]) > 0 for p in order} == {True}


async def test_messages_before_and_after_the_channel_opens() -> None:
    caller, peer, events = await connect()
    await events.wait_for("channel", "text")
    await caller.wait_open()
    assert peer.send("text", "first")
    assert not peer.send("chat", "nobody made this channel")
    assert caller.channel is not None
    caller.channel.send("hello")
    await events.wait_for("message", "text", "hello")
    caller.channel.send(b"as bytes")
    await events.wait_for("message", "text", "as bytes")
    caller.channel.send(b"\xff\xfe")
    caller.channel.send("x" * (MAX_MESSAGE_BYTES + 1))
    caller.channel.send("last")
    await events.wait_for("message", "text", "last")
    assert caller.messages == ["first"]
    # What is no text, or too long, is told as an empty message: it is answered, and it counts.
    assert [e[2] for e in events.log if e[0] == "message"] == ["hello", "as bytes", "", "", "last"]
    await caller.close()
    await peer.aclose()
    assert not peer.send("text", "too late")


async def test_sending_to_a_peer_that_reads_nothing_is_bounded() -> None:
    caller, peer, events = await connect()
    await events.wait_for("channel", "text")
    message = "x" * 16_384
    sent = 0
    while peer.send("text", message):
        sent += 1
        assert sent < 1_000
    assert sent * len(message) <= MAX_BUFFERED_BYTES
    assert not peer.send("text", "y" * (2 * MAX_BUFFERED_BYTES))
    await caller.close()
    await peer.aclose()


async def test_datagrams_of_strangers_end_nothing() -> None:
    caller, peer, events = await connect()
    await events.wait_for("channel", "text")
    candidate = re.search(r"a=candidate:\S+ 1 udp \d+ (\S+) (\d+)", caller.pc.remoteDescription.sdp)
    assert candidate is not None
    address = (candidate[1], int(candidate[2]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        # RFC 7983: what the first byte says a datagram is.
        for first in (0, 1, 19, 20, 22, 25, 63, 64, 127, 128, 191, 192, 255):
            for length in (0, 1, 2, 3, 12, 20, 40):
                stranger.sendto(bytes([first] * length), address)
    assert caller.channel is not None
    await caller.wait_open()
    await asyncio.sleep(0.1)
    caller.channel.send("still here")
    await events.wait_for("message", "text", "still here")
    assert peer.connected
    await caller.close()
    await peer.aclose()


async def test_a_peer_that_hangs_up_is_told_at_once() -> None:
    caller, peer, events = await connect()
    await caller.close()
    await events.wait_for("closed", "peer_closed", timeout_s=3)
    assert not peer.connected
    assert [e for e in events.log if e[0] == "closed"] == [("closed", "peer_closed")]
    await peer.aclose()
    await peer.aclose()


async def test_our_own_close_is_no_event() -> None:
    caller, peer, events = await connect()
    await peer.aclose()
    await asyncio.sleep(0.1)
    assert ("closed", "peer_closed") not in events.log
    await caller.close()


async def test_silence_is_measured_from_the_last_arrival() -> None:
    caller, peer, _ = await connect()
    await asyncio.sleep(0.3)
    assert peer.silent_s() < 0.2
    for transport in shim.ice_transports(caller.pc):
        connection = transport.iceGatherer._connection
        for protocol in connection._protocols:
            protocol.transport.close()
    await asyncio.sleep(0.8)
    assert peer.silent_s() > 0.6
    await peer.aclose()
    await caller.close()


async def test_video_and_a_second_audio_section_are_answered_inactive() -> None:
    caller = Caller()
    caller.pc.addTransceiver("video", "sendrecv")
    caller.pc.addTransceiver("audio", "sendrecv")
    offer = await caller.offer()
    peer, answer = await WebRtcPeer.answer(offer, events=Events(), ice=LOOPBACK)
    sections = sdp.Description.parse(answer).sections
    offered = sdp.Description.parse(offer).sections
    assert [s.kind for s in sections] == [s.kind for s in offered]
    directions = [s.direction for s in sections if s.kind in ("audio", "video")]
    assert sorted(directions) == ["inactive", "inactive", "sendrecv"]
    await caller.accept(answer)
    await asyncio.sleep(0.3)
    assert caller.pc.connectionState == "connected"
    await caller.close()
    await peer.aclose()


async def test_video_of_an_unknown_codec_ends_nothing() -> None:
    video = GOOD_AUDIO.replace("m=audio", "m=video").replace("mid:0", "mid:1")
    video = video.replace("opus/48000/2", "AV2/90000")
    offer = offer_like("a=group:BUNDLE 0 1\r\n", GOOD_AUDIO + video)
    peer, answer = await WebRtcPeer.answer(offer, events=Events(), ice=LOOPBACK)
    assert [s.direction for s in sdp.Description.parse(answer).sections] == ["sendrecv", "inactive"]
    await peer.aclose()


async def test_a_caller_with_no_candidate_of_use_is_learned_from_its_checks() -> None:
    caller, events = Caller(), Events()
    useless = r"\1 nowhere.invalid"
    offer = re.sub(r"(a=candidate:\S+ 1 udp \d+) \S+", useless, await caller.offer())
    peer, answer = await WebRtcPeer.answer(offer, events=events, ice=LOOPBACK)
    await peer.add_candidate("", "0", 0)
    await asyncio.sleep(0.2)
    await caller.accept(answer)
    await events.wait_for("connected")
    await caller.close()
    await peer.aclose()


async def test_the_answer_says_what_opus_should_do() -> None:
    caller = Caller()
    peer, answer = await WebRtcPeer.answer(await caller.offer(), events=Events(), ice=LOOPBACK)
    audio = next(s for s in sdp.Description.parse(answer).sections if s.kind == "audio")
    parameters = audio.parameters(96)
    assert parameters["useinbandfec"] == "1" and parameters["stereo"] == "0"
    assert "telephone-event/8000" in audio.codec_names().values()
    await caller.close()
    await peer.aclose()


async def test_a_slow_client_is_asked_for_no_more_than_it_wants() -> None:
    caller = Caller()
    wish = r"\1\r\na=fmtp:96 maxaveragebitrate=12000"
    offer = re.sub(r"(a=rtpmap:96 opus/48000/2)", wish, await caller.offer())
    peer, answer = await WebRtcPeer.answer(offer, events=Events(), ice=LOOPBACK)
    await caller.accept(answer)
    for _ in range(25):
        peer.play(noise(FRAME_S))
        await asyncio.sleep(FRAME_S)
    await caller.close()
    await peer.aclose()
    sizes = [len(p[3]) for p in caller.packets[20:]]
    assert np.mean(sizes) * 8 * 50 < 16_000


def offer_like(audio: str, extra: str = "") -> str:
    return (
        "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n" + audio + extra
        if audio or extra
        else ""
    )


GOOD_AUDIO = (
    "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=rtcp-mux\r\n"
    "a=ice-ufrag:abcd\r\na=ice-pwd:aaaaaaaaaaaaaaaaaaaaaaaa\r\n"
    "a=fingerprint:sha-256 " + ":".join(["AA"] * 32) + "\r\na=setup:actpass\r\n"
    "a=sendrecv\r\na=rtpmap:111 opus/48000/2\r\n"
)


@pytest.mark.parametrize(
    ("offer", "error"),
    [
        ("", InvalidOffer),
        ("garbage", InvalidOffer),
        ("v=0\r\n" + "x" * 2**20, InvalidOffer),
        (offer_like(GOOD_AUDIO.replace("a=ice-ufrag:abcd\r\n", "")), InvalidOffer),
        (offer_like(GOOD_AUDIO.replace("setup:actpass", "setup:nonsense")), InvalidOffer),
        (offer_like(re.sub("a=fingerprint[^\r]*\r\n", "", GOOD_AUDIO)), InvalidOffer),
        (offer_like(re.sub("a=setup[^\r]*\r\n", "", GOOD_AUDIO)), InvalidOffer),
        (offer_like(GOOD_AUDIO.replace("opus/48000/2", "iLBC/8000")), UnsupportedOffer),
        (offer_like(GOOD_AUDIO.replace("opus/48000/2", "opus/nonsense/2")), InvalidOffer),
        (offer_like(GOOD_AUDIO.replace("sendrecv", "recvonly")), UnsupportedOffer),
        (offer_like(GOOD_AUDIO + "a=candidate:1 x udp 1 1.2.3.4 9 typ host\r\n"), InvalidOffer),
        (offer_like(GOOD_AUDIO + "a=ssrc:nonsense cname:x\r\n"), InvalidOffer),
        (offer_like(GOOD_AUDIO + "a=extmap:x y z\r\n"), InvalidOffer),
        (offer_like(GOOD_AUDIO.replace("111", "75")), RtcAgentError),
    ],
    ids=range(14),
)
async def test_offers_that_cannot_be_answered(offer: str, error: type[RtcAgentError]) -> None:
    with pytest.raises(error) as refusal:
        await WebRtcPeer.answer(offer, events=Events(), ice=LOOPBACK)
    assert 400 <= refusal.value.http_status < 500
    assert len(refusal.value.message) > 10


async def test_a_chrome_like_offer_is_answered() -> None:
    peer, answer = await WebRtcPeer.answer(offer_like(GOOD_AUDIO), events=Events(), ice=LOOPBACK)
    assert "m=audio" in answer and "a=setup:active" in answer
    assert peer.codec is OPUS
    assert not peer.connected
    await peer.aclose()


@pytest.mark.parametrize(
    "candidate",
    [
        None,
        "",
        "candidate:1 1 udp 2130706431 127.0.0.1 9 typ host",
        "a=candidate:1 1 UDP 2130706431 127.0.0.1 9 typ host generation 0 ufrag abcd",
        "candidate:1 1 tcp 1518280447 127.0.0.1 9 typ host tcptype active",
        "candidate:1 2 udp 2130706431 127.0.0.1 9 typ host",
        "candidate:1 1 udp 2130706431 fe80::1 9 typ host",
        "candidate:1 1 udp 2130706431 not.an.address 9 typ host",
        "candidate:1 1 udp 2130706431 127.0.0.1 9 typ prflx",
    ],
)
@pytest.mark.parametrize("section", [("0", 0), ("nonsense", -1)])
async def test_candidates_of_every_form_are_taken(
    candidate: str | None, section: tuple[str | None, int | None]
) -> None:
    peer, _ = await WebRtcPeer.answer(offer_like(GOOD_AUDIO), events=Events(), ice=LOOPBACK)
    await peer.add_candidate(candidate, *section)
    await peer.add_candidate(candidate, *section)
    await asyncio.sleep(0)
    await peer.aclose()
    await peer.add_candidate(candidate, *section)


@pytest.mark.parametrize("candidate", ["nonsense", "candidate:1 1 udp x 1.2.3.4 9 typ host", "{}"])
async def test_candidates_that_are_none_are_refused(candidate: str) -> None:
    peer, _ = await WebRtcPeer.answer(offer_like(GOOD_AUDIO), events=Events(), ice=LOOPBACK)
    with pytest.raises(InvalidRequest, match="candidate"):
        await peer.add_candidate(candidate, "0", 0)
    await peer.aclose()


async def test_an_offer_whose_candidates_come_later() -> None:
    caller, events = Caller(), Events()
    offer = await caller.offer()
    lines = offer.split("\r\n")
    candidates = [line for line in lines if line.startswith("a=candidate:")]
    bare = "\r\n".join(
        line for line in lines if not line.startswith(("a=candidate:", "a=end-of-candidates"))
    )
    peer, answer = await WebRtcPeer.answer(bare, events=events, ice=LOOPBACK)
    for line in candidates:
        await peer.add_candidate(line, "0", 0)
    await peer.add_candidate("", "0", 0)
    await caller.accept(answer)
    await events.wait_for("connected")
    await caller.close()
    await peer.aclose()


async def test_no_thread_decodes_beside_a_call() -> None:
    before = set(threading.enumerate())
    caller, peer, _ = await connect()
    async with asyncio.timeout(10):
        while any("decoder" in each.name for each in set(threading.enumerate()) - before):
            await asyncio.sleep(0.02)
    packets = peer.stats().packets_received
    async with asyncio.timeout(10):
        while peer.stats().packets_received <= packets:
            await asyncio.sleep(0.02)
    await asyncio.gather(caller.close(), peer.aclose())


async def test_a_hundred_answers_leave_nothing_behind() -> None:
    """Offers never followed up: every socket and task is gone after closing."""
    before = {t for t in asyncio.all_tasks()}
    for _ in range(20):
        peers = []
        for _ in range(5):
            peer, _ = await WebRtcPeer.answer(offer_like(GOOD_AUDIO), events=Events(), ice=LOOPBACK)
            peers.append(peer)
        await asyncio.gather(*(peer.aclose() for peer in peers))
    await asyncio.sleep(0.1)
    gc.collect()
    assert {t for t in asyncio.all_tasks()} - before == set()


async def test_ports_are_those_allowed_and_the_last_one_taken_is_a_refusal() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        first = min(probe.getsockname()[1], 60_000)
    ice = IceSettings(hosts=("127.0.0.1",), ports=(first, first + 5))
    peers, used = [], set()
    with pytest.raises(ServerFull, match="No UDP port"):
        for _ in range(20):
            peer, answer = await WebRtcPeer.answer(offer_like(GOOD_AUDIO), events=Events(), ice=ice)
            peers.append(peer)
            used |= {int(port) for port in re.findall(r"udp \d+ 127.0.0.1 (\d+) typ host", answer)}
    assert 1 <= len(used) == len(peers) <= 6
    assert all(first <= port <= first + 5 for port in used)
    await asyncio.gather(*(peer.aclose() for peer in peers))
    peer, _ = await WebRtcPeer.answer(offer_like(GOOD_AUDIO), events=Events(), ice=ice)
    await peer.aclose()


async def test_a_server_without_descriptors_blames_no_caller() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    peer, _ = await WebRtcPeer.answer(offer_like(GOOD_AUDIO), events=Events(), ice=LOOPBACK)
    await peer.aclose()
    spare = os.open(os.devnull, os.O_RDONLY)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, before[1]))
    try:
        with pytest.raises(ServerFull, match="nothing left") as refused:
            await WebRtcPeer.answer(offer_like(GOOD_AUDIO), events=Events(), ice=LOOPBACK)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert refused.value.retry_after_s


async def test_a_call_over_a_port_of_the_range() -> None:
    caller, events = Caller(), Events()
    ice = IceSettings(hosts=("127.0.0.1",), ports=(41_000, 41_400))
    peer, answer = await WebRtcPeer.answer(await caller.offer(), events=events, ice=ice)
    await caller.accept(answer)
    await events.wait_for("connected")
    await caller.close()
    await peer.aclose()
