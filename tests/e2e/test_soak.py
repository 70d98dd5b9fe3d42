"""Eight callers who come and go for an hour over bad networks: nothing grows. Part of `make soak`.

`SOAK_MINUTES` makes it shorter or longer; it asks for less than three minutes in no case.
"""

from __future__ import annotations

import asyncio
import os
import random
from asyncio.subprocess import DEVNULL
from pathlib import Path

import numpy as np
import pytest

from rtc_agent.client.call_client import CallClient
from rtc_agent.client.chirps import ProbeSignal
from rtc_agent.client.impair import Impairment
from rtc_agent.client.measurement import payloads
from rtc_agent.client.offer import SmallWebRtcSignaling
from rtc_agent.client.sources import PayloadSource
from rtc_agent.engine.stepper import SAMPLE_RATE
from rtc_agent.errors import CallRefused, RtcAgentError
from rtc_agent.media.codecs import encoder_for
from rtc_agent.media.ice import IceSettings
from rtc_agent.wav import WavWriter
from tests.holdings import Holdings, growth_per_hour
from tests.real_server import RealServer, command

MINUTES = max(3.0, float(os.environ.get("SOAK_MINUTES", "60")))
CALLERS = 8
EVERY_S = 15.0
ICE = IceSettings(hosts=("127.0.0.1",))
MEMORY_PER_HOUR_MB = 12.0
"""A heap goes on settling for a while; a leak of one call's buffers would be hundreds."""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(MINUTES * 60 + 300)]


class Callers:
    """People who call, talk for a while over a bad network, and hang up."""

    def __init__(self, url: str, until_s: float) -> None:
        self.url = url
        self.until_s = until_s
        self.calls = 0
        self.failures: list[str] = []
        self._said = payloads(ProbeSignal(SAMPLE_RATE), 60.0, encoder_for("opus"))

    async def person(self, number: int) -> None:
        chance = random.Random(number)
        loop = asyncio.get_running_loop()
        while loop.time() < self.until_s:
            self.calls += 1
            seconds = chance.uniform(2, 45)
            try:
                await self._call(chance, min(seconds, max(2.0, self.until_s - loop.time())))
            except CallRefused:
                # One who vanished still has his slot.
                await asyncio.sleep(2)
            except RtcAgentError as error:
                self.failures.append(f"{error.code}: {error.message}")
            await asyncio.sleep(chance.uniform(0, 3))

    async def _call(self, chance: random.Random, seconds: float) -> None:
        network = Impairment(
            loss=0.02,
            burst=2,
            jitter_ms=chance.uniform(0, 30),
            reorder=0.01,
            drift_ppm=chance.uniform(-300, 300),
            seed=chance.randrange(2**31),
        )
        signaling = SmallWebRtcSignaling(self.url)
        async with CallClient(signaling, ice=ICE, impairment=network) as client:
            await client.connect()
            await client.wait_ready()
            client.play(PayloadSource(self._said))
            if not await client.wait_until(client.clock.now() + seconds):
                self.failures.append(str(client.ended))

    async def vanishing(self, folder: Path) -> None:
        """Every half minute one whose process is killed in the middle of a call."""
        speech = folder / "speech.wav"
        with WavWriter(speech) as writer:
            writer.write(np.zeros(60 * SAMPLE_RATE, np.float32))
        loop = asyncio.get_running_loop()
        while loop.time() < self.until_s - 30:
            process = await command(
                *("call", self.url, "--ice-host", "127.0.0.1"),
                *("--input", str(speech), "--output", str(folder / "heard.wav")),
                stdout=DEVNULL,
                stderr=DEVNULL,
            )
            await asyncio.sleep(12)
            if process.returncode is None:
                process.kill()
            await process.wait()
            await asyncio.sleep(18)


@pytest.mark.parametrize("workers", ["0", "2"])
async def test_nothing_grows(tmp_path: Path, workers: str) -> None:
    server = await RealServer.start(
        *("--agent", "echo", "--sessions", str(CALLERS + 1), "--media-workers", workers)
    )
    try:
        before = Holdings.of(server.process.pid)
        loop = asyncio.get_running_loop()
        callers = Callers(server.url, loop.time() + MINUTES * 60)
        work = [asyncio.create_task(callers.person(number)) for number in range(CALLERS)]
        work.append(asyncio.create_task(callers.vanishing(tmp_path)))
        samples: list[Holdings] = []
        while not all(task.done() for task in work):
            await asyncio.wait(work, timeout=EVERY_S, return_when=asyncio.ALL_COMPLETED)
            samples.append(Holdings.of(server.process.pid))
            print(f"{len(samples) * EVERY_S:6.0f} s, {callers.calls} calls: {samples[-1]}")
        await asyncio.gather(*work)
        async with asyncio.timeout(60):
            while await server.free_slots() < CALLERS + 1:
                await asyncio.sleep(0.5)
        await asyncio.sleep(5)
        after = Holdings.of(server.process.pid)
    finally:
        await server.stop()
    settled = samples[len(samples) // 3 :]
    growth = growth_per_hour([each.resident_mb for each in settled], EVERY_S)
    print(f"{callers.calls} calls; before {before}; after {after}; {growth:+.1f} MB per hour")
    print(f"failures: {callers.failures}")
    assert "Traceback" not in server.log and "never retrieved" not in server.log, server.log
    assert not callers.failures, callers.failures
    assert growth < MEMORY_PER_HOUR_MB * max(1.0, 60 / MINUTES)
    assert after.processes == before.processes
    assert after.threads <= before.threads + 4
    # Connections to media workers are kept, with an end here and there for each offer at once.
    kept = 2 * CALLERS if workers != "0" else 0
    assert after.descriptors <= before.descriptors + 8 + kept
    early, late = settled[: len(settled) // 2], settled[len(settled) // 2 :]
    assert max(each.descriptors for each in late) <= max(e.descriptors for e in early) + 8
