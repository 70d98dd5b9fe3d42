"""The SIP plugin's events, URIs and the keys in SIP INFO."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.protocol import janus_sip
from rtc_agent.protocol.janus_sip import DtmfPress, SipUri


def test_an_incoming_call_is_read() -> None:
    event = janus_sip.read(
        {
            "sip": "event",
            "call_id": "a@b",
            "result": {"event": "incomingcall", "username": "sip:bob@x", "callee": "sip:agent@y"},
        }
    )
    assert (event.name, event.call_id) == ("incomingcall", "a@b")
    assert event.text("username") == "sip:bob@x"
    assert event.number("code") is None


def test_a_refusal_is_an_event_of_its_own() -> None:
    event = janus_sip.read({"sip": "event", "error_code": 446, "error": "Wrong state"})
    assert (event.name, event.number("code"), event.text("error")) == ("error", 446, "Wrong state")


@given(st.dictionaries(st.sampled_from(["result", "call_id", "error"]), st.integers() | st.none()))
def test_odd_data_never_raises(data: dict[str, object]) -> None:
    janus_sip.read(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sip:agent@10.0.0.1", SipUri("agent", "10.0.0.1")),
        ("sip:+4930123;phone-context=x@h:5070;transport=tcp", SipUri("+4930123", "h")),
        ("<sips:a.b@[2001:db8::1]:5061>", SipUri("a.b", "[2001:db8::1]")),
        ("sip:host", SipUri("", "host")),
        ("tel:+49", None),
        ("sip:a@b>\r\nX: y", None),
        ("sip:a b@c", None),
        ("sip:a@b:99999", None),
        ("sip:a@b?Subject=x", None),
        ("", None),
    ],
)
def test_uris(text: str, expected: SipUri | None) -> None:
    assert janus_sip.parse_uri(text) == expected


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("application/dtmf-relay", "Signal=5\r\nDuration=160\r\n", DtmfPress("5", 160)),
        ("application/dtmf-relay", "Signal= #\r\nDuration= 100", DtmfPress("#", 100)),
        ("application/dtmf-relay", "signal=11", DtmfPress("#", 0)),
        ("application/dtmf;x=y", " d \r\n", DtmfPress("D", 0)),
        ("application/dtmf-relay", "Signal=hello", None),
        ("application/dtmf-relay", "", None),
        ("text/plain", "Signal=5", None),
    ],
)
def test_keys_in_sip_info(kind: str, content: str, expected: DtmfPress | None) -> None:
    assert janus_sip.parse_info(kind, content) == expected


def test_a_transfers_progress_is_in_a_sipfrag() -> None:
    assert janus_sip.sipfrag_status("message/sipfrag;version=2.0", "SIP/2.0 200 OK\r\n") == 200
    assert janus_sip.sipfrag_status("text/plain", "SIP/2.0 200 OK") is None
    assert janus_sip.sipfrag_status("message/sipfrag", "nonsense") is None
