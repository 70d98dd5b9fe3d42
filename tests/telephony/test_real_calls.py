"""Calls through the real gateway from a real telephone to the echo agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import correlate

from rtc_agent.call.state import EndReason
from tests.telephony.bench import phone_bench, until
from tests.telephony.conftest import at_rate
from tests.telephony.phones import Baresip, Samples, write_wav

pytestmark = [pytest.mark.telephony, pytest.mark.timeout(90)]

RATES = {"PCMU": 8_000, "PCMA": 8_000, "G722": 16_000, "opus": 48_000}


def likeness(heard: Samples, said: Samples) -> float:
    """The best correlation of a stretch of what was heard with what was said, 0 … 1."""
    best = 0.0
    window = len(said) // 4
    for start in range(0, len(said) - window, window):
        part = said[start : start + window]
        product = np.abs(correlate(heard, part, mode="valid", method="fft"))
        total = np.concatenate([[0.0], np.cumsum(heard**2)])
        energy = total[window:] - total[:-window]
        norms = np.sqrt(np.maximum(energy, 1e-9) * np.sum(part**2))
        best = max(best, float(np.max(product / norms)))
    return best


async def phone_in(
    folder: Path, speech: tuple[Samples, int], codec: str, answer: bool = False
) -> Baresip:
    rate = RATES[codec]
    voice = folder / "voice.wav"
    channels = 2 if codec == "opus" else 1
    write_wav(voice, np.tile(at_rate(speech, rate), 6), rate, channels)
    phone = Baresip(folder / "phone", voice, codec=codec, answer=answer)
    await phone.start()
    return phone


@pytest.mark.parametrize("codec", ["PCMU", "G722", "opus"])
async def test_a_telephone_hears_its_own_speech_back(
    tmp_path: Path, speech: tuple[Samples, int], codec: str
) -> None:
    async with phone_bench(tmp_path) as bench:
        phone = await phone_in(tmp_path, speech, codec)
        try:
            await phone.command("dial", bench.uri)
            await phone.event("CALL_ESTABLISHED")
            await asyncio.sleep(6)
        finally:
            await phone.close()
        record = await bench.record()
        await bench.free_again()
    heard, rate = phone.heard()
    assert rate == RATES[codec]
    # A codec's waveform differs, and a disturbed machine may cost a packet: 0.6 is far from chance.
    assert likeness(heard, at_rate(speech, rate)) > 0.6
    assert record["codec"] == codec
    assert (record["ended_by"], record["sip_code"], record["reason"]) == ("phone", 200, "hangup")
    assert 4 < record["talk_s"] < 20
    assert record["quality"]["packets_received"] > 200


async def test_a_real_telephone_holds_and_resumes(
    tmp_path: Path, speech: tuple[Samples, int]
) -> None:
    """Its recorder stops at the first hold: what it hears afterwards is another test's matter."""
    async with phone_bench(tmp_path, vanished_s=4) as bench:
        phone = await phone_in(tmp_path, speech, "PCMU")
        try:
            await phone.command("dial", bench.uri)
            await phone.event("CALL_ESTABLISHED")
            await asyncio.sleep(1)
            await phone.command("hold")
            await until(lambda: bench.calls[0].state == "held")
            # Longer than silence is borne outside of a hold.
            await asyncio.sleep(5)
            (call,) = bench.registry
            assert not call._heard.last.any()
            await phone.command("resume")
            await until(lambda: bench.calls[0].state == "talking")
            await until(lambda: np.abs(call._heard.last).max() > 0.02, 5)
        finally:
            await phone.close()
        record = await bench.record()
    assert record["holds"] == 1 and record["ended_by"] == "phone"


async def test_the_agents_hang_up_reaches_the_telephone(
    tmp_path: Path, speech: tuple[Samples, int]
) -> None:
    async with phone_bench(tmp_path) as bench:
        phone = await phone_in(tmp_path, speech, "PCMU")
        try:
            await phone.command("dial", bench.uri)
            await phone.event("CALL_ESTABLISHED")
            await until(lambda: any(c.state == "live" for c in bench.registry))
            next(iter(bench.registry)).end(EndReason.CALL_LIMIT)
            await phone.event("CALL_CLOSED", 3)
            await bench.free_again()
        finally:
            await phone.close()
        record = await bench.record()
    assert (record["ended_by"], record["reason"]) == ("agent", "call_limit")


async def test_the_agent_calls_a_telephone(tmp_path: Path, speech: tuple[Samples, int]) -> None:
    async with phone_bench(tmp_path, outgoing=["sip:phone@127.0.0.1:*"]) as bench:
        phone = await phone_in(tmp_path, speech, "G722", answer=True)
        try:
            call = await bench.line.dial(phone.uri)
            await phone.event("CALL_ESTABLISHED")
            await until(lambda: call.state == "talking")
            await asyncio.sleep(6)
            call.hang_up()
            await phone.event("CALL_CLOSED", 3)
            await bench.free_again()
        finally:
            await phone.close()
        record = await bench.record()
    assert (record["direction"], record["codec"]) == ("outgoing", "G722")
    heard, rate = phone.heard()
    assert likeness(heard, at_rate(speech, rate)) > 0.6


async def test_keys_of_a_real_telephone_are_events_and_no_sound(tmp_path: Path) -> None:
    async with phone_bench(tmp_path) as bench:
        write_wav(tmp_path / "voice.wav", np.zeros(8_000 * 30), 8_000)
        phone = Baresip(tmp_path / "phone", tmp_path / "voice.wav", codec="PCMU")
        await phone.start()
        keys: list[str] = []
        loudest = 0.0
        try:
            await phone.command("dial", bench.uri)
            await phone.event("CALL_ESTABLISHED")
            await until(lambda: any(c.state == "live" for c in bench.registry))
            (call,) = bench.registry
            press = call.press
            call.press = lambda key: (keys.append(key), press(key))[1]  # type: ignore[method-assign]
            for key in "5509#":
                await phone.command("sndcode", key)
                for _ in range(40):
                    await asyncio.sleep(0.02)
                    loudest = max(loudest, float(np.abs(call._heard.last).max()))
            await until(lambda: len(keys) >= 5, 3)
            await asyncio.sleep(0.5)
        finally:
            await phone.close()
    assert "".join(keys) == "5509#"
    # PCMU's smallest step is not zero.
    assert loudest < 0.005
