"""Recordings: what was said is in the files, and no fault of a disk reaches a call."""

from __future__ import annotations

import json
import queue
import threading
import wave
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from rtc_agent.call.recorder import End, Line, Piece, Recorder, Sound
from rtc_agent.call.recording_place import LocalPlace, RemotePlace, place_at
from rtc_agent.call.recordings import RecordingEvents, Recordings
from rtc_agent.call.state import EndReason
from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm
from rtc_agent.errors import ConfigError, MissingDependency
from tests.call.fakes import call_bench

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
DAY = "2026-03-04"


def tone(level: float) -> Pcm:
    return np.full(FRAME_SAMPLES, level, np.float32)


class Outcomes:
    """What the recordings reported, and a way to wait for it."""

    def __init__(self) -> None:
        self.queue: queue.Queue[str] = queue.Queue()
        self.dropped = 0

    def events(self) -> RecordingEvents:
        return RecordingEvents(self.queue.put, self._drop)

    def _drop(self) -> None:
        self.dropped += 1

    def next(self) -> str:
        return self.queue.get(timeout=10)


def recordings(place: Any, outcomes: Outcomes, **options: Any) -> Recordings:
    made = Recordings(place, events=outcomes.events(), wall=lambda: NOW, **options)
    made.start()
    return made


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_wav_has_the_caller_left_and_the_agent_right(tmp_path: Path) -> None:
    outcomes = Outcomes()
    made = recordings(LocalPlace(tmp_path), outcomes, sound_format="wav")
    recorder = made.begin("call-1", agent="echo", voice=None)
    recorder.frame(0, tone(0.25), tone(-0.5), "Hä")
    recorder.speech("caller", True)
    recorder.frame(2, tone(0.25), tone(-0.5))
    recorder.close("hangup")
    assert outcomes.next() == "kept"
    made.close(5)
    with wave.open(str(tmp_path / DAY / "call-1.wav")) as file:
        assert (file.getnchannels(), file.getframerate(), file.getnframes()) == (2, 24_000, 5_760)
        heard = np.frombuffer(file.readframes(5_760), "<i2").reshape(-1, 2) / 32_767
    assert np.allclose(heard[:1_920], (0.25, -0.5), atol=1e-3)
    assert not heard[1_920:3_840].any(), "the frame that was skipped is silence"
    assert np.allclose(heard[3_840:], (0.25, -0.5), atol=1e-3)
    head, text, speech, end = entries(tmp_path / DAY / "call-1.jsonl")
    assert head["type"] == "recording" and head["consent"] and head["agent"] == "echo"
    assert (text["delta"], text["t_ms"], text["who"]) == ("Hä", 80, "agent")
    assert (speech["state"], speech["t_ms"]) == ("started", 80)
    assert (end["reason"], end["frames"], end["dropped"]) == ("hangup", 3, 0)
    assert (tmp_path / DAY).stat().st_mode & 0o077 == 0, "nobody else reads it"


def test_opus_in_ogg_keeps_both_sides_apart(tmp_path: Path) -> None:
    outcomes = Outcomes()
    made = recordings(LocalPlace(tmp_path), outcomes)
    recorder = made.begin("call-1")
    t = np.arange(FRAME_SAMPLES) / 24_000
    sine = (0.5 * np.sin(2 * np.pi * 500 * t)).astype(np.float32)
    for index in range(25):
        recorder.frame(index, sine, tone(0))
    recorder.close("hangup")
    assert outcomes.next() == "kept"
    made.close(5)
    with av.open(str(tmp_path / DAY / "call-1.ogg")) as container:
        [stream] = container.streams.audio
        assert (stream.codec.name, stream.channels) == ("opus", 2)
        planes = np.concatenate([f.to_ndarray() for f in container.decode(stream)], axis=1)
    samples = planes if planes.shape[0] == 2 else planes.reshape(-1, 2).T
    left, right = (float(np.sqrt(np.mean(np.square(side)))) for side in samples)
    assert left > 0.3 and right < 0.02
    assert abs(samples.shape[1] / 48_000 - 2.0) < 0.1


def test_a_conversation_that_begins_anew_goes_on_in_the_recording() -> None:
    pieces: list[Piece] = []

    def put(piece: Piece) -> bool:
        pieces.append(piece)
        return True

    recorder = Recorder(put)
    for index in (0, 1, 0, 1):
        recorder.frame(index, tone(0), tone(0))
    assert [piece.index for piece in pieces if isinstance(piece, Sound)] == [0, 1, 2, 3]


def test_what_does_not_fit_is_left_out_and_counted(tmp_path: Path) -> None:
    began, go_on = threading.Event(), threading.Event()

    class Slow(LocalPlace):
        def folder(self, name: str) -> Path:
            began.set()
            assert go_on.wait(10)
            return super().folder(name)

    outcomes = Outcomes()
    made = recordings(Slow(tmp_path), outcomes, sound_format="wav", max_waiting=10)
    recorder = made.begin("call-1")
    assert began.wait(10)
    for index in range(50):
        recorder.frame(index, tone(0.1), tone(0.1))
    assert recorder.dropped == outcomes.dropped == 40
    recorder.close("hangup")
    go_on.set()
    assert outcomes.next() == "kept"
    made.close(5)
    assert entries(tmp_path / DAY / "call-1.jsonl")[-1]["dropped"] == 40


@pytest.mark.parametrize("full", ["call-1.wav.part", "call-1.jsonl.part"])
async def test_a_full_disk_ends_the_recording_and_not_the_call(
    tmp_path: Path, full: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / DAY).mkdir()
    (tmp_path / DAY / full).symlink_to("/dev/full")
    outcomes = Outcomes()
    made = recordings(LocalPlace(tmp_path), outcomes, sound_format="wav")
    async with call_bench() as bench:
        call, transport = await bench.live()
        call.record(made.begin("call-1"))
        other = made.begin("call-2")
        played = len(transport.played)
        await bench.run(8, transport)
        other.frame(0, tone(0), tone(0))
        other.close("hangup")
        assert call.reason is None and len(transport.played) >= played + 95
        call.end(EndReason.HANGUP)
    assert sorted((outcomes.next(), outcomes.next())) == ["failed", "kept"]
    made.close(5)
    assert "No space left" in caplog.text
    assert (tmp_path / DAY / "call-2.wav").is_file(), "others are not concerned"


async def test_a_call_tells_its_caller_that_it_is_recorded(tmp_path: Path) -> None:
    outcomes = Outcomes()
    made = recordings(LocalPlace(tmp_path), outcomes, sound_format="wav")
    async with call_bench() as bench:
        call, transport = await bench.live()
        call.record(made.begin(call.ids.public))
        await bench.run(1, transport)
        assert [notice["code"] for notice in transport.of("notice")] == ["recording"]
        call.end(EndReason.HANGUP)
        assert outcomes.next() == "kept"
        call.record(made.begin("too-late"))
        assert outcomes.next() == "kept", "one that is over leaves nothing open"
    made.close(5)
    end = entries(tmp_path / DAY / f"{call.ids.public}.jsonl")[-1]
    assert end["reason"] == "hangup" and 13 <= end["frames"] <= 16


def test_old_days_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    for name in ("2026-02-01", "2026-03-03", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.wav").touch()
    Recordings(LocalPlace(tmp_path), days=30, wall=lambda: NOW).sweep()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2026-03-03", "notes"]
    later = NOW + timedelta(days=900)
    Recordings(LocalPlace(tmp_path), days=0, wall=lambda: later).sweep()
    assert (tmp_path / "2026-03-03").exists(), "0 keeps them"


def test_a_store_of_fsspec_gets_whole_files() -> None:
    fsspec = pytest.importorskip("fsspec")
    outcomes = Outcomes()
    made = recordings(place_at("memory://bucket/calls"), outcomes, sound_format="wav", days=3)
    memory = fsspec.filesystem("memory")
    memory.makedirs("/bucket/calls/2025-01-01")
    memory.pipe_file("/bucket/calls/2025-01-01/old.wav", b"old")
    recorder = made.begin("call-1")
    recorder.frame(0, tone(0.1), tone(0.1))
    recorder.close("hangup")
    assert outcomes.next() == "kept"
    made.close(5)
    found = sorted(memory.find("/bucket"))
    assert found == [f"/bucket/calls/{DAY}/call-1.{kind}" for kind in ("jsonl", "wav")]


def test_a_server_that_stops_keeps_what_there_is(tmp_path: Path) -> None:
    outcomes = Outcomes()
    made = recordings(LocalPlace(tmp_path), outcomes, sound_format="wav")
    made.begin("call-1").frame(0, tone(0.1), tone(0.1))
    made.close(5)
    assert outcomes.next() == "kept"
    assert (tmp_path / DAY / "call-1.wav").is_file()


def test_a_place_that_cannot_be_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be kept"):
        place_at(str(tmp_path / "file" / "below"))


def test_a_store_without_its_driver_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Callable[..., Any]:
        raise ImportError(f"no module {name}")

    monkeypatch.setattr("rtc_agent.call.recording_place.importlib.import_module", missing)
    with pytest.raises(MissingDependency, match=r"rtc-agent\[storage\]"):
        RemotePlace("s3://bucket")


def test_pieces_are_of_three_kinds() -> None:
    pieces: list[Piece] = []
    recorder = Recorder(lambda piece: pieces.append(piece) is None)
    recorder.frame(0, tone(0), tone(0), "a")
    recorder.close("hangup")
    recorder.close("idle")
    recorder.frame(1, tone(0), tone(0))
    assert [type(piece) for piece in pieces] == [Sound, Line, End]
