"""All recordings of a process: written by one thread, stored under their day, deleted in time.

Disks and stores may be slow or full; calls know nothing of it. What does not fit in the queue is
left out and counted, what cannot be written ends the recording and not the call.
"""

from __future__ import annotations

import json
import logging
import queue
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO

from rtc_agent.call.recorder import End, Line, Piece, Recorder, Sound
from rtc_agent.call.recording_place import Place
from rtc_agent.call.sound_file import FORMATS, SoundFile, silence
from rtc_agent.engine.stepper import SAMPLE_RATE

log = logging.getLogger(__name__)

MAX_WAITING = 4_000
"""Pieces of all calls together: 5 s of 64 calls."""
SWEEP_EVERY_S = 3_600.0
MAX_GAP_FRAMES = 750
"""A minute. A longer gap is cut to that, so that no fault writes silence without end."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(slots=True)
class _Open:
    """A recording that is being written."""

    name: str
    sound: SoundFile
    words: TextIO
    files: list[Path]
    frames: int = 0
    failed: bool = False


@dataclass(slots=True)
class RecordingEvents:
    """Told from the writer's thread."""

    on_outcome: Callable[[str], None] = field(default=lambda outcome: None)
    """`kept` or `failed`, once for each recording."""
    on_dropped: Callable[[], None] = field(default=lambda: None)
    """A piece was left out."""


class Recordings:
    """Begins recordings and keeps them."""

    def __init__(
        self,
        place: Place,
        sound_format: str = "ogg",
        days: float = 30,
        events: RecordingEvents | None = None,
        wall: Callable[[], datetime] | None = None,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """
        Args:
            sound_format: `ogg` or `wav`.
            days: after which recordings are deleted; 0: never.
        """
        self._place = place
        self._format = sound_format
        self._days = days
        self._events = events or RecordingEvents()
        self._wall = wall or (lambda: datetime.now(UTC))
        self._queue: queue.Queue[tuple[str, Piece | dict[str, Any]] | None] = queue.Queue()
        self._max_waiting = max_waiting
        self._open: dict[str, _Open | None] = {}
        self._thread = threading.Thread(target=self._run, name="recordings", daemon=True)

    @property
    def days(self) -> float:
        """After which recordings are deleted; 0: never."""
        return self._days

    def start(self) -> None:
        self._thread.start()

    def begin(self, call_id: str, **about: Any) -> Recorder:
        """Record a call.

        Args:
            about: facts for the transcript's first line; JSON.
        """
        head = {
            "type": "recording",
            "call_id": call_id,
            "began": self._wall().isoformat(timespec="milliseconds"),
            "sample_rate": SAMPLE_RATE,
            "channels": ["caller", "agent"],
            "consent": True,
            **about,
        }
        self._queue.put((call_id, head))

        def put(piece: Piece) -> bool:
            if self._queue.qsize() >= self._max_waiting and not isinstance(piece, End):
                self._events.on_dropped()
                return False
            self._queue.put((call_id, piece))
            return True

        return Recorder(put)

    def close(self, timeout_s: float) -> None:
        """Write what waits, within the timeout. Blocks."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                log.error("recordings could not be finished within %.0f s", timeout_s)

    # On the writer's thread

    def _run(self) -> None:
        self.sweep()
        while True:
            try:
                item = self._queue.get(timeout=SWEEP_EVERY_S)
            except queue.Empty:
                self.sweep()
                continue
            if item is None:
                for call_id in list(self._open):
                    self._end(call_id)
                return
            self._take(*item)

    def _take(self, call_id: str, item: Piece | dict[str, Any]) -> None:
        try:
            if isinstance(item, dict):
                self._open[call_id] = self._begin(call_id, item)
            elif (recording := self._open.get(call_id)) is not None:
                self._write(recording, item)
        except Exception as error:
            # Whatever goes wrong with a file is this recording's end, and nothing else's.
            self._fail(call_id, error)
        if isinstance(item, End):
            self._end(call_id)
            self.sweep()

    def _begin(self, call_id: str, head: dict[str, Any]) -> _Open:
        name = f"{self._wall().date().isoformat()}/{call_id}"
        folder = self._place.folder(name)
        sound_path = folder / f"{call_id}.{self._format}.part"
        words_path = folder / f"{call_id}.jsonl.part"
        words = words_path.open("w", encoding="utf-8")
        try:
            sound = FORMATS[self._format](sound_path)
        except BaseException:
            words.close()
            raise
        recording = _Open(name, sound, words, [sound_path, words_path])
        _add(words, head)
        return recording

    def _write(self, recording: _Open, piece: Piece) -> None:
        match piece:
            case Sound(index=index, samples=samples):
                if (gap := min(index - recording.frames, MAX_GAP_FRAMES)) > 0:
                    recording.sound.write(silence(gap))
                recording.sound.write(samples)
                recording.frames = index + 1
            case Line(fields=fields) | End(fields=fields):
                _add(recording.words, fields)

    def _end(self, call_id: str) -> None:
        recording = self._open.pop(call_id, None)
        if recording is None:
            return
        try:
            recording.sound.close()
            recording.words.close()
            self._place.keep(recording.name, recording.files)
        except Exception as error:
            self._open[call_id] = recording
            self._fail(call_id, error)
            self._open.pop(call_id, None)
            return
        self._events.on_outcome("kept")

    def _fail(self, call_id: str, error: Exception) -> None:
        recording = self._open.get(call_id)
        self._open[call_id] = None
        log.error(
            "the recording ends here, and the call goes on: %s", error, extra={"call_id": call_id}
        )
        self._events.on_outcome("failed")
        if recording is None:
            return
        for file in (recording.sound, recording.words):
            try:
                file.close()
            except Exception as again:
                log.debug("a file of a failed recording could not be closed: %s", again)

    def sweep(self) -> None:
        """Delete the days that are too long ago."""
        if not self._days:
            return
        oldest = (self._wall() - timedelta(days=self._days)).date().isoformat()
        try:
            for day in self._place.days():
                if _DAY.fullmatch(day) and day < oldest:
                    self._place.delete(day)
                    log.info(
                        "recordings of %s were deleted: they are older than %g days",
                        day,
                        self._days,
                    )
        except Exception as error:
            log.error("old recordings could not be deleted: %s", error)


def _add(words: TextIO, fields: dict[str, Any]) -> None:
    words.write(json.dumps(fields, ensure_ascii=False) + "\n")
    words.flush()
