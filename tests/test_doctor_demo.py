"""What the doctor says of the demo agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtc_agent import doctor
from rtc_agent.doctor import Level
from rtc_agent.engine import capacity
from rtc_agent.engine.capacity import TickTimes
from rtc_agent.model import catalog
from tests.training.small_model import write_small_model


def test_the_demo_lacks_weights_or_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "DEMO_FOLDER", tmp_path)
    assert doctor._demo().level is Level.NOTE
    (tmp_path / "config.json").write_text("{}")
    damaged = doctor._demo()
    assert damaged.level is Level.NOTE and "has no model.safetensors" in damaged.detail
    monkeypatch.setattr(doctor, "MODEL_PACKAGES", ("no_such_package",))
    lacking = doctor._demo()
    assert lacking.level is Level.NOTE and "pip install" in lacking.advice


def test_a_step_of_the_demo_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "DEMO_FOLDER", write_small_model(tmp_path))
    assert doctor._demo_step_ms() > 0

    def told(step_ms: float) -> tuple[Level, str]:
        times = TickTimes(1, step_ms, step_ms)
        monkeypatch.setattr(capacity, "tick_times", lambda *_, **__: times)
        finding = doctor._demo()
        return finding.level, finding.detail

    level, detail = told(31.2)
    assert level is Level.OK and "takes 31 ms" in detail
    level, detail = told(95.0)
    assert level is Level.NOTE and "too slow here: a step takes 95 ms now, and 80" in detail
