from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rtc_agent.client.chirps import Dropout
from rtc_agent.client.measurement import Chirp, Measurement
from rtc_agent.client.plot import plot
from rtc_agent.errors import InvalidRequest, MissingDependency

MEASURED = Measurement(
    chirps=(Chirp(0.5, 120.0), Chirp(0.9, None), Chirp(1.3, 125.0)),
    dropouts=(Dropout(1.0, 0.1),),
    arrivals_s=((0.1, 0.001), (0.12, 0.004)),
)


def test_a_png_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the [tools] extra is not installed")
    path = tmp_path / "p.png"
    plot(MEASURED, "a probe", path)
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5_000
    plot(Measurement(), "nothing", path)
    with pytest.raises(InvalidRequest, match="cannot be written"):
        plot(MEASURED, "a probe", tmp_path / "none" / "p.png")


def test_without_the_package_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependency, match=r"rtc-agent\[tools\]"):
        plot(MEASURED, "a probe", tmp_path / "p.png")
