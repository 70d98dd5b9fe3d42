"""The same wish has the same name, however it is put."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.cluster.wishes import Remembered, prompt_of

PIRATE = {"voice": "NATF2", "persona": "You are a pirate."}
QUERY = "voice=NATF2&persona=You%20are%20a%20pirate."


def _name(path: str, body: Any = None, session: Any = None) -> str | None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return prompt_of(make_mocked_request("POST", path), raw, session)


@pytest.mark.parametrize(
    ("path", "body", "session"),
    [
        ("/api/offer", {"sdp": "…", "request_data": PIRATE}, None),
        ("/api/offer", {"requestData": {**PIRATE, "persona": " You are a pirate.\n"}}, None),
        ("/sessions/x/api/offer", {"request_data": PIRATE}, None),
        ("/start", {"body": PIRATE}, None),
        (f"/whip?{QUERY}", None, None),
        ("/api/chat?voice_prompt=NATF2.pt&text_prompt=You%20are%20a%20pirate.", None, None),
        ("/v1/realtime/calls", None, {"voice": "NATF2", "instructions": "You are a pirate."}),
        (
            "/v1/realtime",
            None,
            {"audio": {"output": {"voice": "NATF2"}}, "instructions": "You are a pirate."},
        ),
    ],
)
def test_every_protocol_says_the_same(path: str, body: Any, session: Any) -> None:
    assert _name(path, body, session) == _name("/api/offer", {"request_data": PIRATE})
    assert _name(path, body, session) is not None


def test_other_wishes_have_other_names_and_none_has_none() -> None:
    other = {**PIRATE, "voice": "NATF3"}
    assert _name("/api/offer", {"request_data": other}) != _name("/start", {"body": PIRATE})
    for body in ({}, {"request_data": None}, {"request_data": {"voice": 3}}, [], 7, b"\xff", b"["):
        assert _name("/api/offer", body) is None


@given(st.lists(st.sampled_from("abcdef"), max_size=30), st.integers(1, 4))
def test_the_latest_are_remembered(names: list[str], most: int) -> None:
    remembered = Remembered(most)
    for name in names:
        remembered.add(name)
    latest = list(dict.fromkeys(reversed(names)))[:most]
    assert remembered.names == latest[::-1]
