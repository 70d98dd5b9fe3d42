from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.protocol import events
from rtc_agent.protocol.events import CallEvent, Ended, Notice, Ready, Speech, Stats, Text
from rtc_agent.protocol.rtvi import PROTOCOL_VERSION, RtviDialect

CLIENT_READY = {
    "label": "rtvi-ai",
    "type": "client-ready",
    "id": "4f2a9c01",
    "data": {
        "version": "2.1.0",
        "about": {"library": "@pipecat-ai/client-js", "library_version": "1.13.1"},
    },
}
"""As @pipecat-ai/client-js 1.13.1 sends it."""
READY = Ready(frame=0, call_id="call-1", agent="echo", description="An echo.", voice=None)


def message(type_: str, data: Any = None, **rest: Any) -> dict[str, Any]:
    return {"label": "rtvi-ai", "type": type_, "id": "abcd1234", "data": data or {}} | rest


class Talk:
    """A dialect and what it said, parsed."""

    def __init__(self, version: str | None = "2.1.0", ready: bool = True) -> None:
        self.dialect = RtviDialect()
        if ready:
            self.tell(READY)
            hello = CLIENT_READY | {"data": {} if version is None else {"version": version}}
            self.greeting, _ = self.receive(hello)

    def tell(self, *happened: CallEvent) -> list[dict[str, Any]]:
        return [json.loads(m) for e in happened for m in self.dialect.encode(e)]

    def types(self, *happened: CallEvent) -> list[str]:
        return [m["type"] for m in self.tell(*happened)]

    def receive(self, body: Any) -> tuple[list[dict[str, Any]], list[events.Command]]:
        received = self.dialect.decode(body if isinstance(body, str) else json.dumps(body), 7)
        return [json.loads(m) for m in received.replies], list(received.commands)


def speech(frame: int, who: events.Who, speaking: bool) -> Speech:
    return Speech(frame=frame, who=who, speaking=speaking, duration_ms=0)


@pytest.mark.parametrize("agent_first", [True, False])
def test_bot_ready_answers_client_ready_once_both_are(agent_first: bool) -> None:
    talk = Talk(ready=False)
    if agent_first:
        assert talk.tell(READY) == []
        answers, _ = talk.receive(CLIENT_READY)
    else:
        assert talk.receive(CLIENT_READY) == ([], [])
        answers = talk.tell(READY)
    (answer,) = answers
    assert answer["type"] == "bot-ready" and answer["id"] == CLIENT_READY["id"]
    assert answer["data"]["version"] == PROTOCOL_VERSION
    assert answer["data"]["about"]["agent"] == "echo"


def test_a_client_of_version_1_gets_its_own_version_and_its_own_bot_output() -> None:
    talk = Talk("1.2.0")
    assert talk.greeting[0]["data"]["version"] == "1.2.0"
    said = talk.tell(
        speech(1, "agent", True), Text(frame=2, delta=" Hi."), speech(9, "agent", False)
    )
    (output,) = [m for m in said if m["type"] == "bot-output"]
    assert output["data"] == {"text": "Hi.", "aggregated_by": "sentence", "spoken": True}


@pytest.mark.parametrize("version", [None, "", "soon", "²"])
def test_a_client_without_a_version_is_told_and_served(version: str | None) -> None:
    types = [m["type"] for m in Talk(version).greeting]
    assert types == ["error-response", "bot-ready"]


def test_what_happened_before_client_ready_is_told_after_bot_ready() -> None:
    talk = Talk(ready=False)
    assert talk.tell(READY, Text(frame=1, delta=" Hello")) == []
    answers, _ = talk.receive(CLIENT_READY)
    assert [m["type"] for m in answers][:2] == ["bot-ready", "bot-llm-started"]
    assert {"text": " Hello"} in [m.get("data") for m in answers]


def test_a_burst_is_bracketed_and_its_sentences_are_told_as_they_close() -> None:
    talk = Talk()
    said = talk.tell(
        Text(frame=1, delta=" Good day."),
        Text(frame=2, delta=" How"),
        speech(3, "agent", True),
        Text(frame=4, delta=" are you?"),
        speech(20, "agent", False),
    )
    assert [m["type"] for m in said if m["type"] not in ("bot-tts-text", "bot-llm-text")] == [
        "bot-llm-started",
        "bot-tts-started",
        "bot-started-speaking",
        "bot-transcription",
        "bot-output",
        "bot-transcription",
        "bot-output",
        "bot-stopped-speaking",
        "bot-llm-stopped",
        "bot-tts-stopped",
    ]
    outputs = [m["data"] for m in said if m["type"] == "bot-output"]
    assert [o["text"] for o in outputs] == ["Good day.", "How are you?"]
    assert [o["segment_id"] for o in outputs] == [1, 2]
    assert outputs[0]["spoken_status"] == "completed"
    assert outputs[0]["spoken_progress"] == {"accumulated_text": "Good day.", "remaining_text": ""}
    assert all("id" not in m for m in said)


def test_text_comes_twice_as_model_text_and_as_spoken_text() -> None:
    said = Talk().tell(Text(frame=1, delta=" é"))
    assert [(m["type"], m["data"]["text"]) for m in said if "data" in m] == [
        ("bot-llm-text", " é"),
        ("bot-tts-text", " é"),
    ]


def test_the_caller_speaking_and_the_response_time() -> None:
    talk = Talk()
    said = talk.tell(speech(10, "caller", True), speech(20, "caller", False))
    assert [m["type"] for m in said] == ["user-started-speaking", "user-stopped-speaking"]
    (metrics,) = [m for m in talk.tell(speech(25, "agent", True)) if m["type"] == "metrics"]
    assert metrics["data"] == {"ttfb": [{"processor": "echo", "value": 0.4}]}
    assert "metrics" not in talk.types(speech(40, "agent", False), speech(50, "agent", True))


def test_levels_stats_and_notices() -> None:
    talk = Talk()
    assert talk.tell(events.Levels(caller=0.5, agent=0.25)) == []
    (served,), _ = talk.receive(message("client-message", {"t": "audio-levels"}))
    assert served["type"] == "server-response" and served["id"] == "abcd1234"
    assert served["data"] == {"t": "audio-levels", "d": {"enabled": True}}
    assert talk.tell(events.Levels(caller=0.5, agent=0.25)) == [
        {"label": "rtvi-ai", "type": "user-audio-level", "data": {"value": 0.5}},
        {"label": "rtvi-ai", "type": "bot-audio-level", "data": {"value": 0.25}},
    ]
    (stats,) = talk.tell(Stats(figures={"packets_lost": 3}))
    assert stats["type"] == "server-message"
    assert stats["data"] == {"type": "stats", "packets_lost": 3}
    assert talk.types(Notice(code="dtmf", message="…", fields={"digits": "1"})) == [
        "server-message"
    ]
    error, _ = talk.tell(Notice(code="overload", message="Too slow."))
    assert error["type"] == "error"
    assert error["data"] == {"error": "Too slow.", "message": "Too slow.", "fatal": False}


def test_an_ending_by_fault_is_a_fatal_error_and_every_ending_a_farewell() -> None:
    fault = Talk().tell(Ended(reason="agent_failed", message="It broke."))
    assert fault[0]["data"]["fatal"] is True
    assert fault[-1] == {"type": "signalling", "message": {"type": "peerLeft"}}
    assert Talk().types(Ended(reason="hangup", message="")) == ["signalling"]
    assert Talk(ready=False).types(Ended(reason="refused", message=""))[-1] == "signalling"


def test_an_open_burst_is_closed_before_the_farewell() -> None:
    talk = Talk()
    talk.tell(speech(1, "agent", True), Text(frame=2, delta=" Good"))
    types = talk.types(Ended(reason="hangup", message=""))
    assert types.index("bot-stopped-speaking") < types.index("signalling")
    assert "bot-output" in types


@pytest.mark.parametrize(
    ("data", "digits"),
    [({"buttons": ["1", "2", "#"]}, "12#"), ({"button": "5"}, "5")],
)
def test_dtmf_of_both_versions(data: dict[str, Any], digits: str) -> None:
    assert Talk().receive(message("dtmf", data)) == ([], [events.Dtmf(digits)])


@pytest.mark.parametrize("data", [{}, {"buttons": []}, {"buttons": ["A"]}, {"button": "12"}])
def test_dtmf_that_is_none_is_answered(data: dict[str, Any]) -> None:
    (reply,), commands = Talk().receive(message("dtmf", data))
    assert commands == []
    assert reply["type"] == "error-response" and reply["id"] == "abcd1234"


def test_disconnect_bot_hangs_up() -> None:
    assert Talk().receive(message("disconnect-bot")) == ([], [events.Hangup()])


@pytest.mark.parametrize(
    ("body", "commands"),
    [
        ("ping: 1764480000000", []),
        (
            {
                "type": "signalling",
                "message": {"type": "trackStatus", "receiver_index": 0, "enabled": False},
            },
            [events.SetMuted(True)],
        ),
        (
            {
                "type": "signalling",
                "message": {"type": "trackStatus", "receiver_index": 1, "enabled": False},
            },
            [],
        ),
        ({"type": "signalling", "message": {"type": "new"}}, []),
        ({"type": "signalling"}, []),
        (message("ui-snapshot", {"tree": {}}), []),
    ],
)
def test_messages_that_want_no_answer(body: Any, commands: list[events.Command]) -> None:
    assert Talk().receive(body) == ([], commands)


@pytest.mark.parametrize(
    "data", [{}, {"t": 3}, {"t": "weather"}, {"t": "audio-levels", "d": {"enabled": "maybe"}}]
)
def test_client_messages_that_are_not_taken(data: dict[str, Any]) -> None:
    (reply,), commands = Talk().receive(message("client-message", data))
    assert commands == []
    assert reply["type"] == "error-response" and reply["id"] == "abcd1234"


@pytest.mark.parametrize("type_", ["send-text", "client-message", "raw-audio", "made-up"])
def test_what_cannot_be_done_is_refused_under_the_same_id(type_: str) -> None:
    (reply,), commands = Talk().receive(message(type_, {"t": "x"}))
    assert commands == []
    assert reply["type"] == "error-response" and reply["id"] == "abcd1234"
    assert reply["data"]["error"] and reply["data"]["error"] == reply["data"]["message"]


def test_an_unknown_type_is_named() -> None:
    (reply,), _ = Talk().receive(message("made-up"))
    assert reply["data"]["error"] == "Unsupported type made-up"


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"type": 3}', '{"type": "client-ready"}'])
def test_what_is_no_message_is_answered_with_an_error_that_is_not_fatal(body: str) -> None:
    (reply,), commands = Talk().receive(body)
    assert commands == []
    assert reply["type"] == "error" and reply["data"]["fatal"] is False


@given(st.text(max_size=200))
def test_no_text_makes_it_raise(text: str) -> None:
    Talk().dialect.decode(text, 0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=8,
    ),
    st.sampled_from(["client-ready", "dtmf", "signalling", "send-text", "disconnect-bot"]),
)
def test_no_data_makes_it_raise(data: Any, type_: str) -> None:
    Talk().receive({"label": "rtvi-ai", "type": type_, "id": "x", "data": data, "message": data})
