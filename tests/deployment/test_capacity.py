"""The capacity model's sums are right."""

from __future__ import annotations

import math
import re

import pytest

from tests.deployment.files import ROOT

TEXT = (ROOT / "docs" / "capacity.md").read_text(encoding="utf-8")
GIVEN = {
    symbol: float(value)
    for symbol, value in re.findall(r"^\| `(\w)` \| ([\d.]+) \|", TEXT, re.MULTILINE)
}
SUMS = re.findall(r"^\| (.+?) \| `([^`]+)` \| ([\d.]+) \|$", TEXT, re.MULTILINE)


def test_the_tables_were_found() -> None:
    assert len(GIVEN) == 26 and len(SUMS) > 20


@pytest.mark.parametrize(("what", "formula", "value"), SUMS)
def test_a_sum(what: str, formula: str, value: str) -> None:
    known = {"ceil": math.ceil, "max": max, "__builtins__": {}}
    places = len(value.partition(".")[2])
    assert round(eval(formula, known, dict(GIVEN)), places) == float(value), what


def test_every_figure_is_used() -> None:
    used = {name for _, formula, _ in SUMS for name in re.findall(r"\b\w\b", formula)}
    assert set(GIVEN) <= used
