from __future__ import annotations

import sys

import numpy as np
import pytest

from rtc_agent.client.quality import best_delay, listening_score
from rtc_agent.errors import MissingDependency
from tests.client.audio import speech

SPOKEN = speech(4.0)


def test_delay_is_found() -> None:
    late = np.concatenate([np.zeros(3_210, np.float32), SPOKEN])
    assert best_delay(SPOKEN, late) == 3_210


def test_worse_speech_scores_lower() -> None:
    pytest.importorskip("visqol", reason="the [tools] extra is not installed")
    noise = np.random.default_rng(1).standard_normal(len(SPOKEN)).astype(np.float32)
    late = np.concatenate([np.zeros(2_500, np.float32), SPOKEN])
    same, slightly, badly = (
        listening_score(SPOKEN, heard)
        for heard in (late, SPOKEN + 0.003 * noise, SPOKEN + 0.05 * noise)
    )
    assert 4.7 < same <= 5
    assert same > slightly > badly
    assert badly < 3.5


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "visqol", None)
    with pytest.raises(MissingDependency, match=r"rtc-agent\[tools\]"):
        listening_score(SPOKEN, SPOKEN)
