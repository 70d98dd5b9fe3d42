from __future__ import annotations

import json
from pathlib import Path

import pytest

from rtc_agent.client.messages import ReceivedMessage, parse, said, steps_back, write_transcript
from rtc_agent.errors import InvalidRequest


def test_parse() -> None:
    message = parse(1.0, '{"type": "text", "delta": "a"}')
    assert message is not None and message.type == "text" and message.arrival_s == 1.0
    for bad in ("", "ping: 3", "[1]", "null", b"\xff\xfe", "[" * 100_000):
        assert parse(0.0, bad) is None
    untyped = parse(0.0, "{}")
    assert untyped is not None and untyped.type == ""


def test_said_joins_text_alone() -> None:
    bodies = [
        {"type": "text", "delta": "Hel"},
        {"type": "notice", "delta": "no"},
        {"type": "text", "delta": "lo"},
        {"type": "text"},
    ]
    assert said([ReceivedMessage(0.0, body) for body in bodies]) == "Hello"


@pytest.mark.parametrize(
    ("frames", "back"), [([], 0), ([0, 0, 3], 0), ([2, 1, 5, 4], 2), ([1, None, 0], 1)]
)
def test_steps_back(frames: list[int | None], back: int) -> None:
    assert steps_back([ReceivedMessage(0.0, {"frame": frame}) for frame in frames]) == back


def test_transcript(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_transcript(path, [ReceivedMessage(2.5, {"type": "text", "delta": "né"})], 2.0)
    assert json.loads(path.read_text()) == {"type": "text", "delta": "né", "arrived_ms": 500.0}
    assert "né" in path.read_text()
    with pytest.raises(InvalidRequest, match="cannot be written"):
        write_transcript(tmp_path / "no" / "t.jsonl", [], 0.0)
