"""Call records: every one in the file, in order, and nothing personal in the log."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rtc_agent.telephony.records import CallRecord, RecordFile

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def record(number: int) -> CallRecord:
    return CallRecord(
        id=f"phone-{number}",
        direction="incoming",
        caller="sip:+491234567@example.org",
        called="sip:agent@example.com",
        started=START,
        answered=START + timedelta(seconds=2),
        ended=START + timedelta(seconds=12.5),
        ended_by="phone",
        sip_code=200,
        reason="hangup",
    )


async def test_records_are_lines_of_json_in_order(tmp_path: Path) -> None:
    path = tmp_path / "cdr.jsonl"
    file = RecordFile(path)
    for number in range(20):
        file(record(number))
    await file.aclose()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"phone-{n}" for n in range(20)]
    assert rows[0]["talk_s"] == 10.5
    assert rows[0]["started"] == "2026-01-02T03:04:05.000+00:00"


async def test_a_log_line_has_no_number_in_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        RecordFile(None)(record(1))
    assert "phone-1" in caplog.text and "1234567" not in caplog.text


async def test_a_file_that_cannot_be_written_is_said_once_and_hurts_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = RecordFile(tmp_path)
    file(record(1))
    await file.aclose()
    assert "could not be written" in caplog.text


def test_a_call_that_nobody_answered_has_no_talking_time() -> None:
    unanswered = record(1)
    unanswered.answered = None
    assert unanswered.talk_s == 0
