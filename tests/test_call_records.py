"""Call records and the file they go to."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rtc_agent import json_lines
from rtc_agent.call.state import EndReason
from rtc_agent.call_records import CallRecords
from rtc_agent.json_lines import LineFile
from tests.call.fakes import call_bench

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


async def test_every_call_that_ended_has_a_line(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    records = CallRecords(path, lambda: "echo", lambda: NOW)
    async with call_bench() as bench:
        bench.registry.watchers.append(records)
        call, transport = await bench.live()
        await bench.run(2, transport)
        call.end(EndReason.HANGUP)
        never, _ = await bench.place()
        await bench.run(20)
        with pytest.raises(Exception, match="stopped"):
            bench.registry._draining = True
            await bench.place()
    await records.aclose()
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert (first["call_id"], first["reason"]) == (call.ids.public, "hangup")
    assert first["ended"] == "2026-03-04T05:06:07.000+00:00"
    assert 2 <= first["duration_s"] <= 3 and first["live_s"] is not None
    assert first["quality"]["packets_received"] == 7 and first["agent"] == "echo"
    assert (second["call_id"], second["reason"]) == (never.ids.public, "connect_timeout")
    assert second["live_s"] is None
    assert not {"text", "persona", "address", "session"} & first.keys()


async def test_a_file_that_cannot_be_written_is_said_and_hurts_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = LineFile(tmp_path, "a line")
    file.add("x")
    await file.aclose()
    assert "a line could not be written" in caplog.text


async def test_a_full_disk_says_what_it_cost(caplog: pytest.LogCaptureFixture) -> None:
    file = LineFile(Path("/dev/full"), "a line")
    file.add("x")
    await file.aclose()
    assert "No space left" in caplog.text


async def test_lines_for_a_slow_disk_are_bounded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "MAX_WAITING", 3)
    file = LineFile(tmp_path / "x", "line")
    for number in range(5):
        file.add(str(number))
    await file.aclose()
    assert (tmp_path / "x").read_text() == "0\n1\n2\n"
    assert "2 times no line was kept" in caplog.text
