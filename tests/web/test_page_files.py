"""What the page's files promise without running: self-contained, and fit for a strict policy."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from tests.web.fake_server import PAGE

MODULES = sorted((PAGE / "js").glob("*.js"))
STYLES = sorted((PAGE / "css").glob("*.css"))


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.inside = ""
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        self.inside = tag
        if found.get("id"):
            self.ids.append(str(found["id"]))

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in ("script", "style") and data.strip():
            self.inline.append(data)


@pytest.fixture(scope="module")
def index() -> _Elements:
    parsed = _Elements()
    parsed.feed((PAGE / "index.html").read_text())
    return parsed


def test_nothing_is_inline(index: _Elements) -> None:
    assert index.inline == []
    names = {name for _, attributes in index.elements for name in attributes}
    assert "style" not in names
    assert not [name for name in names if name.startswith("on")]


@pytest.mark.parametrize("path", [PAGE / "index.html", *MODULES, *STYLES], ids=lambda p: p.name)
def test_nothing_comes_from_elsewhere(path: object) -> None:
    text = re.sub(r"http://localhost", "", path.read_text())  # type: ignore[attr-defined]
    assert not re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text)


def test_ids_are_unique_and_those_asked_for_exist(index: _Elements) -> None:
    assert len(index.ids) == len(set(index.ids))
    asked = {
        name
        for module in MODULES
        for name in re.findall(r'(?:element|swap)\("([\w-]+)"', module.read_text())
    }
    assert asked and asked <= set(index.ids)


def test_every_control_has_a_name(index: _Elements) -> None:
    labels = {a["for"] for tag, a in index.elements if tag == "label" and "for" in a}
    for tag, attributes in index.elements:
        if tag == "textarea":
            assert attributes["id"] in labels
    meters = [a for _, a in index.elements if a.get("role") == "meter"]
    assert len(meters) == 2 and all(a.get("aria-label") for a in meters)


def test_sound_is_only_tapped() -> None:
    """An echo canceller does not know what Web Audio plays, so nothing may be played by it."""
    for module in MODULES:
        assert ".destination" not in module.read_text(), module.name
