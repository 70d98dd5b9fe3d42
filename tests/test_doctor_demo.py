"""What the doctor says of the demo agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtc_agent import doctor
from rtc_agent.doctor import Level
from rtc_agent.model import catalog


def test_the_demo_is_found_where_its_weights_and_packages_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "DEMO_FOLDER", tmp_path)
    assert doctor._demo().level is Level.NOTE
    (tmp_path / "config.json").touch()
    monkeypatch.setattr(doctor, "MODEL_PACKAGES", ("json",))
    assert doctor._demo().level is Level.OK
    monkeypatch.setattr(doctor, "MODEL_PACKAGES", ("no_such_package",))
    lacking = doctor._demo()
    assert lacking.level is Level.NOTE and "pip install" in lacking.advice
