"""The real server over `/api/chat`, called as the reference client calls: sphn, in real time."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import numpy as np
import sphn

from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES
from tests.client.audio import SPEECH, best_match, load_wav
from tests.real_server import RealServer, serving

TRIES = 3
"""Calls are made in real time; a stall of the test machine itself costs a try, not the test."""


class ReferenceClient:
    """What the reference client does: it waits for the handshake, then streams 80 ms at a time."""

    def __init__(self) -> None:
        self.writer = sphn.OpusStreamWriter(24_000)
        self.reader = sphn.OpusStreamReader(24_000)
        self.heard: list[np.ndarray] = []
        self.text = ""

    async def call(self, server: RealServer, pcm: np.ndarray) -> None:
        url = f"{server.url}/api/chat?voice_prompt=&text_prompt="
        async with aiohttp.ClientSession() as http, http.ws_connect(url) as ws:
            first = await ws.receive_bytes(timeout=10)
            assert first[0] == 0
            receiving = asyncio.create_task(self._receive(ws))
            began = asyncio.get_running_loop().time()
            frames = range(0, len(pcm) - FRAME_SAMPLES, FRAME_SAMPLES)
            for number, start in enumerate(frames, 1):
                data = self.writer.append_pcm(pcm[start : start + FRAME_SAMPLES])
                if data:
                    await ws.send_bytes(b"\x01" + data)
                due = began + number * FRAME_S
                await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            await asyncio.sleep(1.0)
            await ws.close()
            await receiving

    async def _receive(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        async for message in ws:
            kind, payload = message.data[0], message.data[1:]
            if kind == 1:
                self.heard.append(self.reader.append_bytes(payload))
            elif kind == 2:
                self.text += payload.decode()
            else:
                raise AssertionError(f"a message of kind {kind} came")


def typical_likeness(said: np.ndarray, heard: np.ndarray) -> float:
    """Of half-second stretches, each wherever it was heard: a frame that the machine had no time
    for moves what follows, and is not what is tried here."""
    stretches = np.array_split(said, max(1, len(said) // 12_000))
    return float(np.median([best_match(stretch, heard)[0] for stretch in stretches]))


async def test_the_reference_client_hears_itself_and_reads_how_long_it_spoke() -> None:
    speech = load_wav(SPEECH)
    said = np.concatenate([speech, np.zeros(24_000, np.float32)])
    async with serving("--agent", "echo") as server:
        for _ in range(TRIES):
            client = ReferenceClient()
            await client.call(server, said)
            likeness = typical_likeness(speech, np.concatenate(client.heard))
            if likeness > 0.9:
                break
        assert likeness > 0.9
        assert "you spoke for 3." in client.text
        async with asyncio.timeout(10):
            while await server.free_slots() < 4:
                await asyncio.sleep(0.1)


async def test_a_client_that_was_cut_off_comes_back_to_its_call_on_the_same_worker() -> None:
    async with (
        serving("--agent", "echo", "--media-workers", "2") as server,
        aiohttp.ClientSession(server.url) as http,
    ):

        async def until_states(*wanted: str) -> None:
            async with asyncio.timeout(20):
                while True:
                    calls = (await (await http.get("/v1/calls")).json())["calls"]
                    if [call["state"] for call in calls] == list(wanted):
                        return
                    await asyncio.sleep(0.05)

        ws = await http.ws_connect("/api/chat?resumable=1")
        handshake, metadata = [await ws.receive_bytes(timeout=10) for _ in range(2)]
        assert (handshake[0], metadata[0]) == (0, 4)
        connection = ws._response.connection
        assert connection is not None and connection.transport is not None
        connection.transport.close()
        await until_states("reconnecting")
        session = json.loads(metadata[1:])["session_id"]
        ws = await http.ws_connect(f"/api/chat?session_id={session}")
        kinds = [(await ws.receive_bytes(timeout=10))[0] for _ in range(8)]
        assert kinds[:2] == [0, 4] and 1 in kinds
        await until_states("live")
        await ws.close()
        await until_states()
