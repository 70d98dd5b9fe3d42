"""Call detail records: a line of JSON for every call that ended; no audio, text or address."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rtc_agent.call.watching import CallFacts
from rtc_agent.errors import RtcAgentError
from rtc_agent.json_lines import LineFile


class CallRecords:
    """Writes a record of each call to a file."""

    def __init__(
        self, path: Path, agent: Callable[[], str], wall: Callable[[], datetime] | None = None
    ) -> None:
        """
        Args:
            agent: name of who answers.
            wall: the time of day; it may be stepped meanwhile, lengths do not depend on it.
        """
        self._file = LineFile(path, "a call record")
        self._agent = agent
        self._wall = wall or (lambda: datetime.now(UTC))

    def on_refused(self, error: RtcAgentError) -> None:
        """No call, no record."""

    def on_ended(self, facts: CallFacts) -> None:
        self._file.add(record(facts, self._agent(), self._wall()))

    async def aclose(self) -> None:
        await self._file.aclose()


def record(facts: CallFacts, agent: str, ended: datetime) -> str:
    """One line. Times are RFC 3339, lengths seconds."""
    started = ended - timedelta(seconds=facts.age_s)
    quality = {} if facts.quality is None else facts.quality.as_dict()
    return json.dumps(
        {
            "call_id": facts.call_id,
            "key": facts.holder.key or None,
            "agent": agent,
            "voice": facts.voice,
            "codec": facts.codec,
            "started": started.isoformat(timespec="milliseconds"),
            "ended": ended.isoformat(timespec="milliseconds"),
            "duration_s": round(facts.age_s, 3),
            **{
                field.name: None
                if (value := getattr(facts, field.name)) is None
                else round(value, 3)
                for field in dataclasses.fields(CallFacts)
                if field.name in ("connected_s", "prepared_s", "live_s")
            },
            "frames": facts.frames,
            "skipped_frames": facts.skipped_frames,
            "reason": None if facts.reason is None else facts.reason.value,
            "quality": quality,
        },
        ensure_ascii=False,
    )
