"""Messages of the gateway, as it writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.protocol import janus


def parsed(**message: Any) -> janus.Message:
    return janus.parse(json.dumps(message))


def test_a_request_leaves_out_what_is_not_given() -> None:
    assert janus.request("create", "t1") == {"janus": "create", "transaction": "t1"}
    assert janus.request("attach", "t2", session_id=7, secret="s", plugin="p", token=None) == {
        "janus": "attach",
        "transaction": "t2",
        "session_id": 7,
        "apisecret": "s",
        "plugin": "p",
    }


def test_success_carries_the_new_id() -> None:
    message = parsed(janus="success", transaction="t", data={"id": 2**53 - 1})
    assert message == janus.Success(transaction="t", id=2**53 - 1)


def test_an_error_carries_code_and_reason() -> None:
    message = parsed(
        janus="error",
        session_id=5,
        transaction="t",
        error={"code": janus.NO_SUCH_SESSION, "reason": "No such session 5"},
    )
    assert isinstance(message, janus.Failure)
    assert (message.code, message.reason) == (458, "No such session 5")


def test_an_event_carries_the_plugins_data_and_a_description() -> None:
    message = parsed(
        janus="event",
        session_id=1,
        sender=2,
        plugindata={"plugin": "janus.plugin.sip", "data": {"sip": "event"}},
        jsep={"type": "offer", "sdp": "v=0", "update": True},
    )
    assert message == janus.PluginEvent(
        session_id=1,
        handle_id=2,
        plugin="janus.plugin.sip",
        data={"sip": "event"},
        jsep=janus.Jsep("offer", "v=0", update=True),
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"janus": "ack", "transaction": "t"}, janus.Ack(transaction="t")),
        ({"janus": "webrtcup", "sender": 3}, janus.WebRtcUp(handle_id=3)),
        (
            {"janus": "hangup", "sender": 3, "reason": "DTLS alert"},
            janus.HungUp(None, None, 3, "DTLS alert"),
        ),
        (
            {"janus": "media", "sender": 3, "type": "audio", "receiving": True},
            janus.Media(None, None, 3, "audio", True),
        ),
        (
            {"janus": "slowlink", "sender": 3, "uplink": True, "lost": 4},
            janus.SlowLink(None, None, 3, True, 4),
        ),
        ({"janus": "detached", "sender": 3}, janus.Detached(handle_id=3)),
        ({"janus": "timeout", "session_id": 9}, janus.TimedOut(session_id=9)),
        ({"janus": "novelty", "sender": 3}, janus.Unknown(None, None, 3, "novelty")),
        (
            {
                "janus": "trickle",
                "sender": 3,
                "candidate": {"candidate": "c", "sdpMid": "0", "sdpMLineIndex": 0},
            },
            janus.Trickle(None, None, 3, "c", "0", 0),
        ),
        (
            {"janus": "trickle", "sender": 3, "candidate": {"completed": True}},
            janus.Trickle(handle_id=3),
        ),
    ],
)
def test_core_events(message: dict[str, Any], expected: janus.Message) -> None:
    assert parsed(**message) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        '{"janus": 1}',
        '{"janus": "event", "plugindata": 3}',
        '{"janus":"success","data":{"id":"7"}}',
        '{"janus": "event", "jsep": {"type": "pranswer", "sdp": ""}}',
    ],
)
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        janus.parse(text)


KINDS = "ack success error event webrtcup hangup media slowlink trickle detached timeout x".split()
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
FIELDS = "transaction session_id sender data error plugindata jsep candidate reason lost".split()


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), values))
def test_any_message_is_read_or_refused(kind: str, fields: dict[str, Any]) -> None:
    try:
        message = parsed(janus=kind, **fields)
    except ValueError:
        return
    assert isinstance(message, janus.Message)
