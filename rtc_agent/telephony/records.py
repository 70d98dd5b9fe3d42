"""Call detail records: one line of JSON for every ended telephone call."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from rtc_agent.json_lines import LineFile

log = logging.getLogger(__name__)

Direction = Literal["incoming", "outgoing"]
Party = Literal["phone", "agent", "gateway"]


@dataclass(slots=True)
class CallRecord:
    """What is kept of a call. `caller` and `called` are people's numbers: they go into the record's
    file, never into a log."""

    id: str
    direction: Direction
    caller: str
    called: str
    sip_call_id: str | None = None
    call_id: str | None = None
    """The agent call's public id, which logs and metrics have too; None if none was made."""
    started: datetime | None = None
    answered: datetime | None = None
    ended: datetime | None = None
    ended_by: Party | None = None
    sip_code: int | None = None
    """Final SIP status of the call; 200 for one that was answered and hung up."""
    reason: str = ""
    codec: str | None = None
    keys: int = 0
    """How many keys were pressed; which ones is nobody's business."""
    holds: int = 0
    quality: dict[str, float] = field(default_factory=dict)

    @property
    def talk_s(self) -> float:
        """Seconds between answer and end; 0 if nobody answered."""
        if self.answered is None or self.ended is None:
            return 0.0
        return round((self.ended - self.answered).total_seconds(), 3)

    def as_json(self) -> str:
        fields = {
            name: value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else value
            for name, value in asdict(self).items()
        }
        return json.dumps({**fields, "talk_s": self.talk_s}, ensure_ascii=False)


RecordSink = Callable[[CallRecord], None]


class RecordFile:
    """Appends records to a file, and logs what of them is not personal."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else LineFile(path, "a call record")

    def __call__(self, record: CallRecord) -> None:
        log.info(
            "telephone call %s over: %s, ended by %s, SIP %s, %.1f s, %s",
            record.id,
            record.reason,
            record.ended_by,
            record.sip_code,
            record.talk_s,
            record.codec or "no audio",
            extra={"call_id": record.call_id or record.id},
        )
        if self._file is not None:
            self._file.add(record.as_json())

    async def aclose(self) -> None:
        """Return once every record is in the file."""
        if self._file is not None:
            await self._file.aclose()
