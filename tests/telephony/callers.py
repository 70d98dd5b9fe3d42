"""Telephones in a process of their own: `python -m tests.telephony.callers URI CALLS SECONDS`.

Prints one JSON object for each: how evenly packets came, how many were lost, and for the first one
how long sound takes from mouth to ear.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import numpy as np

from rtc_agent.client.chirps import ProbeSignal
from rtc_agent.client.figures import percentiles
from rtc_agent.client.measurement import measure, payloads
from rtc_agent.client.sources import PayloadSource
from rtc_agent.engine.stepper import SAMPLE_RATE
from rtc_agent.media.codecs import encoder_for
from tests.telephony.softphone import Softphone

TRAILING_S = 1.0


async def call(phone: Softphone, uri: str, said: list[bytes]) -> float:
    """Call and say it all; returns the moment at which that began."""
    answer = await phone.call(uri)
    assert answer.status == 200, answer.start
    await asyncio.sleep(1.0)
    phone.arrivals_ns.clear()
    origin_s = phone.play(PayloadSource(said))
    await phone.said.wait()
    await asyncio.sleep(TRAILING_S)
    await phone.bye()
    return origin_s


async def run(uri: str, calls: int, seconds: float, codec: str) -> list[dict[str, Any]]:
    signal = ProbeSignal(SAMPLE_RATE)
    said = payloads(signal, seconds, encoder_for(codec))
    phones = [Softphone((codec,)) for _ in range(calls)]
    try:
        begun = await asyncio.gather(*(call(phone, uri, said) for phone in phones))
    finally:
        for phone in phones:
            phone.close()
    rows = []
    for phone, origin_s in zip(phones, begun, strict=True):
        gaps_ms = np.diff(np.array(phone.arrivals_ns)) / 1e6
        sequences = [p.sequence for p in phone.log.in_order()]
        rows.append(
            {
                "packets": len(sequences),
                "lost": sequences[-1] - sequences[0] + 1 - len(sequences),
                "gap_ms": {
                    "p50": float(np.percentile(gaps_ms, 50)),
                    "p99": float(np.percentile(gaps_ms, 99)),
                    "max": float(gaps_ms.max()),
                },
                "mouth_to_ear_ms": None,
            }
        )
        if phone is phones[0]:
            measured = measure(
                phone,  # type: ignore[arg-type]
                signal,
                origin_s,
                seconds,
                trailing_s=TRAILING_S,
            )
            rows[0]["mouth_to_ear_ms"] = percentiles(measured.delays_ms)
            rows[0]["lost_chirps"] = measured.lost_chirps
    return rows


if __name__ == "__main__":
    uri, calls, seconds, codec = sys.argv[1:]
    for row in asyncio.run(run(uri, int(calls), float(seconds), codec)):
        print(json.dumps(row), flush=True)
