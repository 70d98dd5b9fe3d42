"""Offers of every kind at the real server: answered, or refused with a reason, never a 500."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiortc import RTCConfiguration, RTCPeerConnection

from tests.real_server import RealServer, serving


async def sdp_offer(
    *, audio: str | None = "sendrecv", video: bool = False, channel: bool = True
) -> str:
    """An offer as aiortc writes it, of a peer connection that is then thrown away."""
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    if audio:
        pc.addTransceiver("audio", direction=audio)
    if video:
        pc.addTransceiver("video", direction="sendrecv")
    if channel:
        pc.createDataChannel("text")
    await pc.setLocalDescription(await pc.createOffer())
    sdp = pc.localDescription.sdp
    await pc.close()
    return sdp


async def post(server: RealServer, sdp: Any, **fields: Any) -> tuple[int, dict[str, Any]]:
    async with (
        aiohttp.ClientSession() as http,
        http.post(
            f"{server.url}/api/offer", json={"sdp": sdp, "type": "offer", **fields}
        ) as response,
    ):
        return response.status, await response.json()


def only_codec(sdp: str, line: str, payload_type: int) -> str:
    """The offer with one audio codec left."""
    kept = []
    for text in sdp.splitlines():
        if text.startswith("m=audio"):
            text = f"{' '.join(text.split()[:3])} {payload_type}"
        if text.startswith(("a=rtpmap:", "a=fmtp:", "a=rtcp-fb:")):
            continue
        kept.append(text)
        if text.startswith("a=mid:0"):
            kept.append(f"a=rtpmap:{payload_type} {line}")
    return "\r\n".join(kept) + "\r\n"


async def offers() -> dict[str, tuple[Any, set[int]]]:
    """Name → (offer, statuses that are right)."""
    plain = await sdp_offer()
    refused, answered = {400, 422}, {200}
    return {
        "plain": (plain, answered),
        "audio and video": (await sdp_offer(video=True), answered),
        "audio without a channel": (await sdp_offer(channel=False), answered),
        "PCMU only": (only_codec(plain, "PCMU/8000", 0), answered),
        "G722 only": (only_codec(plain, "G722/8000", 9), answered),
        "unknown codec only": (only_codec(plain, "iLBC/8000", 102), refused),
        "data channel only": (await sdp_offer(audio=None), refused),
        "video only": (await sdp_offer(audio=None, video=True, channel=False), refused),
        "recvonly": (await sdp_offer(audio="recvonly"), refused),
        "inactive": (await sdp_offer(audio="inactive"), refused),
        "sendonly": (await sdp_offer(audio="sendonly"), answered | refused),
        "empty": ("", refused),
        "garbage": ("garbage\r\n\x00\xff", refused),
        "half": (plain[: len(plain) // 2], answered | refused),
        "no fingerprint": (
            "\r\n".join(t for t in plain.splitlines() if "fingerprint" not in t) + "\r\n",
            refused,
        ),
        "no ICE password": (
            "\r\n".join(t for t in plain.splitlines() if "ice-pwd" not in t) + "\r\n",
            refused,
        ),
        "no ICE at all": (
            "\r\n".join(t for t in plain.splitlines() if "ice-" not in t) + "\r\n",
            refused,
        ),
        "two audio sections": (
            plain.replace("BUNDLE 0 1", "BUNDLE 0 1 2")
            + "m=audio 9 UDP/TLS/RTP/SAVPF 0\r\nc=IN IP4 0.0.0.0\r\na=mid:2\r\na=sendrecv\r\n",
            answered | refused,
        ),
        "a megabyte": ("v=0\r\n" + "a=x\r\n" * 210_000, {413}),
        "not text": (17, {400}),
        "null": (None, {400}),
    }


async def test_no_offer_is_a_500_and_refused_ones_hold_nothing() -> None:
    async with serving("--agent", "echo", "--sessions", "30") as server:
        kept = 0
        for name, (sdp, statuses) in (await offers()).items():
            status, body = await post(server, sdp)
            assert status in statuses, (name, status, body)
            if status == 200:
                kept += 1
                assert body["sdp"].startswith("v=0") and body["type"] == "answer"
            else:
                assert len(body["error"]["message"]) > 20, (name, body)
        await asyncio.sleep(0.3)
        assert await server.free_slots() == 30 - kept


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def patient() -> AsyncIterator[RealServer]:
    """Of more slots than there are tests with it; each leaves one taken for a while."""
    async with serving("--agent", "echo", "--sessions", "30") as server:
        yield server


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "candidate",
    [
        "",
        None,
        "candidate:1 1 UDP 2130706431 127.0.0.1 40000 typ host",
        "1 1 UDP 2130706431 127.0.0.1 40000 typ host",
        "candidate:1 1 TCP 2130706431 127.0.0.1 9 typ host tcptype active",
        "candidate:1 1 UDP 2130706431 ::1 40000 typ host",
        "candidate:1 1 UDP 2130706431 0d0f1c6c-7b1e.local 40000 typ host",
        "candidate:x",
        "\x00",
        "candidate:" + "9" * 5_000,
        "candidate:1 1 UDP 2130706431 127.0.0.1 999999 typ host",
    ],
)
async def test_no_candidate_is_a_500(candidate: str | None, patient: RealServer) -> None:
    _, answer = await post(patient, await sdp_offer())
    async with aiohttp.ClientSession() as http:
        for place in ({"sdp_mid": "0"}, {"sdp_mid": "9"}, {"sdp_mline_index": 77}, {}):
            patch = {"pc_id": answer["pc_id"], "candidates": [{"candidate": candidate, **place}]}
            async with http.patch(f"{patient.url}/api/offer", json=patch) as response:
                assert response.status in {200, 400}, (place, await response.text())


async def test_a_full_server_answers_at_once() -> None:
    async with serving("--agent", "echo", "--sessions", "1") as server:
        sdp = await sdp_offer()
        assert (await post(server, sdp))[0] == 200
        waits = []
        for _ in range(10):
            began = time.monotonic()
            status, body = await post(server, sdp)
            waits.append(time.monotonic() - began)
            assert status == 503 and body["error"]["code"] == "server_full"
        assert min(waits) < 0.1


async def test_a_hundred_offers_never_followed_up_are_gone() -> None:
    async with serving("--agent", "echo", "--sessions", "100") as server:
        fds = f"/proc/{server.process.pid}/fd"
        before = await count(fds)
        sdp = await sdp_offer()
        answers = [(await post(server, sdp))[0] for _ in range(100)]
        assert answers == [200] * 100
        assert await server.free_slots() == 0
        async with asyncio.timeout(25):
            while await server.free_slots() < 100 or await count(fds) > before + 2:
                await asyncio.sleep(0.25)


async def count(folder: str) -> int:
    import os

    return len(os.listdir(folder))
