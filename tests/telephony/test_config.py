"""The line's settings: what fits, and what is refused in words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rtc_agent.telephony.config import DialRule, TelephonySettings

MINIMAL: dict[str, Any] = {"janus": "ws://gw:8188", "password": ""}


def test_without_a_gateway_there_is_no_telephone() -> None:
    assert not TelephonySettings().enabled
    assert TelephonySettings(**MINIMAL).enabled


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"janus": "http://gw"}, "WebSocket"),
        ({"account": "agent"}, "no SIP address"),
        ({"account": "sip:host"}, "no SIP address"),
        ({"password": None}, "guest"),
        ({"proxy": "10.0.0.1"}, "no SIP address"),
        ({"full_code": 600}, "full_code"),
        ({"codecs": []}, "codecs"),
        ({"lines": 0}, "lines"),
        ({"unknown": 1}, "unknown"),
        ({"dial_plan": [{"voise": "x"}]}, "voise"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        TelephonySettings(**{**MINIMAL, **fields})


def test_the_first_rule_that_fits_counts() -> None:
    plan = [DialRule(number="+49*", voice="a"), DialRule(number="Sales"), DialRule(number="???")]
    settings = TelephonySettings(**MINIMAL, dial_plan=plan)
    found = [settings.rule_for(n) for n in ("+49301", "sales", "110", "1100", "")]
    assert found == [plan[0], plan[1], plan[2], None, None]


def test_no_address_may_be_called_unless_the_settings_name_it() -> None:
    assert not TelephonySettings(**MINIMAL).may_call("sip:bob@example.org")
    settings = TelephonySettings(**MINIMAL, outgoing=["sip:+49*@trunk.example"])
    assert settings.may_call("sip:+4930@trunk.example;user=phone")
    assert not settings.may_call("sip:+4930@trunk.example.evil")
    assert not settings.may_call("sip:+1900@trunk.example")


def test_a_password_is_in_no_printed_form() -> None:
    settings = TelephonySettings(**{**MINIMAL, "password": "geheim", "api_secret": "secret2"})
    text = f"{settings!r} {settings.model_dump_json()}"
    assert "geheim" not in text and "secret2" not in text
