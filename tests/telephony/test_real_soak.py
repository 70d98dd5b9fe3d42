"""What takes minutes: eight calls at once, a long hold, refreshed sessions. Part of `make soak`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.telephony.bench import Bench, phone_bench, until
from tests.telephony.softphone import Softphone
from tests.telephony.test_real_scripts import chirps, echoed, live

pytestmark = [pytest.mark.telephony, pytest.mark.soak, pytest.mark.timeout(400)]


async def callers(bench: Bench, calls: int, seconds: float, codec: str) -> list[dict[str, Any]]:
    """So many telephones in a process of their own; what each has seen."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.telephony.callers",
        bench.uri, str(calls), str(seconds), codec,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0
    return [json.loads(line) for line in output.decode().splitlines()]


async def test_eight_calls_at_once_are_evenly_paced(tmp_path: Path) -> None:
    async with phone_bench(tmp_path, sessions=8, lines=8) as bench:
        rows = await callers(bench, 8, 120, "PCMU")
        await bench.free_again()
        records = bench.records()
    print(json.dumps(rows, indent=1))
    assert len(rows) == len(records) == 8
    assert all(row["lost"] == 0 for row in rows)
    assert max(row["gap_ms"]["p99"] for row in rows) < 25


@pytest.mark.parametrize("codec", ["PCMU", "G722"])
async def test_sound_is_back_within_260_ms(tmp_path: Path, codec: str) -> None:
    async with phone_bench(tmp_path) as bench:
        (row,) = await callers(bench, 1, 30, codec)
    print(json.dumps(row, indent=1))
    assert row["mouth_to_ear_ms"]["p50"] <= 260
    assert row["lost_chirps"] == 0


async def test_two_minutes_on_hold_with_a_session_that_is_refreshed(tmp_path: Path) -> None:
    async with phone_bench(tmp_path) as bench:
        phone = Softphone(("PCMU",))
        try:
            phone.session_expires = "90;refresher=uac"
            await phone.call(bench.uri)
            await live(bench)
            await phone.reinvite("sendonly")
            for _ in range(4):
                await asyncio.sleep(31)
                phone.request("UPDATE")
                assert (await phone.response("UPDATE")).status == 200
                assert (await phone.reinvite("sendonly")).status == 200
                assert bench.calls[0].state == "held"
            assert (await phone.reinvite("sendrecv")).status == 200
            await until(lambda: bench.calls[0].state == "talking")
            assert echoed(await chirps(phone))
            await phone.bye()
        finally:
            phone.close()
        assert (await bench.record())["ended_by"] == "phone"
        await bench.free_again()
