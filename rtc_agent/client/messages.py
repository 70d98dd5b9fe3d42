"""What the server said on the text channel, and writing it down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtc_agent.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One JSON object off the text channel."""

    arrival_s: float
    """On the caller's monotonic clock."""
    body: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.body.get("type", ""))


def parse(arrival_s: float, message: str | bytes) -> ReceivedMessage | None:
    """The message, or None if it is no JSON object."""
    try:
        body = json.loads(message)
    except (ValueError, RecursionError):
        return None
    return ReceivedMessage(arrival_s, body) if isinstance(body, dict) else None


def said(messages: Sequence[ReceivedMessage]) -> str:
    """The agent's whole text."""
    return "".join(str(m.body.get("delta", "")) for m in messages if m.type == "text")


def steps_back(messages: Sequence[ReceivedMessage]) -> int:
    """How often a message's frame number was below the one before; a server never does that."""
    frames = [m.body["frame"] for m in messages if isinstance(m.body.get("frame"), int)]
    return sum(later < earlier for earlier, later in zip(frames, frames[1:], strict=False))


def left_out_frames(messages: Sequence[ReceivedMessage], origin_s: float) -> int:
    """Frames of the caller that the agent did not hear, from a moment on: those in the server's
    notices of overload."""
    notices = (m for m in messages if m.type == "notice" and m.arrival_s >= origin_s)
    return sum(int(m.body.get("frames", 0)) for m in notices if m.body.get("code") == "overload")


def write_transcript(path: Path, messages: Sequence[ReceivedMessage], origin_s: float) -> None:
    """One JSON object a line, as received, with `arrived_ms` since `origin_s` added.

    Raises:
        InvalidRequest: the file cannot be written.
    """
    try:
        with path.open("w", encoding="utf-8") as out:
            for message in messages:
                arrived_ms = round((message.arrival_s - origin_s) * 1e3, 1)
                line = {**message.body, "arrived_ms": arrived_ms}
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}.") from error
