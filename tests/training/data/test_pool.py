from pathlib import Path

import numpy as np
import pytest

from rtc_agent.errors import ConfigError
from rtc_agent.training.data.batch import Utterance
from rtc_agent.training.data.pool import Callers, Recordings
from tests.training.data.toys import hum


def _said() -> list[Utterance]:
    return [
        Utterance(hum(2), "two words", "a", "x"),
        Utterance(hum(3), "three more words", None, "y"),
        Utterance(hum(1), "one", "b", "y"),
    ]


def test_recordings_come_back_in_their_places(tmp_path: Path) -> None:
    Recordings(_said()).save(tmp_path / "said")
    back = Recordings.load(tmp_path / "said")
    for was, now in zip(_said(), back.utterances, strict=True):
        assert (was.text, was.intent, was.speaker) == (now.text, now.intent, now.speaker)
        assert len(was.samples) == len(now.samples)
        # Opus keeps no waveform, but it keeps the place: a hum is where a hum was.
        middle = slice(2_000, len(was.samples) - 2_000)
        assert np.corrcoef(was.samples[middle], now.samples[middle])[0, 1] > 0.95


def test_recordings_that_are_not_of_one_making_are_told(tmp_path: Path) -> None:
    Recordings(_said()[:1]).save(tmp_path / "short")
    Recordings(_said()).save(tmp_path / "long")
    (tmp_path / "long.ogg").replace(tmp_path / "short.ogg")
    (tmp_path / "long.json").replace(tmp_path / "long2.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        Recordings.load(tmp_path / "long")


def test_a_speakers_utterances_are_drawn_alone() -> None:
    recordings, rng = Recordings(_said()), np.random.default_rng(0)
    assert {recordings.draw(rng, "y").text for _ in range(30)} == {"three more words", "one"}
    assert len({recordings.draw(rng).text for _ in range(60)}) == 3


def test_recorded_callers_are_drawn_by_their_shares_and_bent() -> None:
    said = _said()
    callers = Callers(
        recorded=[(Recordings(said[:1]), 0.1), (Recordings(said[1:2]), 0.3)],
        stock=Recordings(said[2:]),
    )
    assert len(callers) == 3
    drawn = [callers.draw(np.random.default_rng(i)) for i in range(1_000)]
    parts = [sum(u.text == wanted.text for u in drawn) for wanted in said]
    assert 60 < parts[0] < 140 and 240 < parts[1] < 360
    lengths = {len(u.samples) for u in drawn if u.text == "three more words"}
    assert len(said[1].samples) in lengths and len(lengths) > 50
    alike = callers.draw_alike("x", np.random.default_rng(1))
    assert (alike.text, alike.intent) == ("two words", "a")
