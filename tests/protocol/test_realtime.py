from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.errors import InvalidRequest
from rtc_agent.protocol import events
from rtc_agent.protocol.events import CallEvent, Ended, Notice, Ready, Speech, Stats, Text
from rtc_agent.protocol.realtime.dialect import RealtimeDialect
from rtc_agent.protocol.realtime.session import Session, read_wishes

READY = Ready(frame=0, call_id="call-1", agent="personaplex", description="…", voice="NATF2")

SDK_UPDATE = {
    "type": "session.update",
    "session": {
        "type": "realtime",
        "instructions": "You sell boats.",
        "model": "gpt-realtime-2.1",
        "output_modalities": ["audio"],
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "noise_reduction": None,
                "transcription": {"model": "gpt-4o-mini-transcribe"},
                "turn_detection": {"type": "semantic_vad"},
            },
            "output": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "voice": "marin",
                "speed": 1,
            },
        },
        "tools": [],
    },
}
"""As @openai/agents-realtime 0.20.0 sends it when its channel opens."""

BETA_UPDATE = {
    "type": "session.update",
    "event_id": "event_client_1",
    "session": {
        "modalities": ["text", "audio"],
        "instructions": "Be brief.",
        "voice": "NATM1",
        "input_audio_format": "pcm16",
        "turn_detection": None,
        "tools": [],
    },
}


class Talk:
    """A dialect and what it said, parsed."""

    def __init__(self, beta: bool = False, ready: bool = True) -> None:
        self.dialect = RealtimeDialect(Session(id="sess_abc", model="personaplex", beta=beta))
        if ready:
            self.tell(READY)

    def tell(self, *happened: CallEvent) -> list[dict[str, Any]]:
        return [json.loads(m) for e in happened for m in self.dialect.encode(e)]

    def types(self, *happened: CallEvent) -> list[str]:
        return [m["type"] for m in self.tell(*happened)]

    def receive(
        self, body: Any, frame: int = 7
    ) -> tuple[list[dict[str, Any]], list[events.Command]]:
        received = self.dialect.decode(body if isinstance(body, str) else json.dumps(body), frame)
        return [json.loads(m) for m in received.replies], list(received.commands)


def speech(frame: int, who: events.Who, speaking: bool) -> Speech:
    return Speech(frame=frame, who=who, speaking=speaking, duration_ms=0)


BURST: list[CallEvent] = [
    Text(frame=1, delta=" Hello"),
    speech(2, "agent", True),
    Text(frame=3, delta=" there."),
    speech(20, "agent", False),
]


def test_the_session_comes_first_and_once() -> None:
    talk = Talk(ready=False)
    (created,) = talk.tell(READY)
    assert created["type"] == "session.created"
    assert created["session"]["type"] == "realtime"
    assert created["session"]["audio"]["output"]["voice"] == "NATF2"
    assert talk.tell(READY) == []


def test_a_client_that_speaks_first_is_told_its_session_first() -> None:
    talk = Talk(ready=False)
    replies, _ = talk.receive(SDK_UPDATE, frame=0)
    assert [m["type"] for m in replies] == ["session.created", "session.updated"]
    assert talk.tell(READY) == []


def test_a_burst_of_agent_speech_is_a_response() -> None:
    told = Talk().tell(*BURST)
    assert [m["type"] for m in told] == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "output_audio_buffer.started",
        "response.output_audio_transcript.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
        "output_audio_buffer.stopped",
    ]
    by_type = {m["type"]: m for m in told}
    assert by_type["response.output_audio_transcript.done"]["transcript"] == " Hello there."
    done = by_type["response.done"]["response"]
    assert done["status"] == "completed" and done["object"] == "realtime.response"
    assert done["output"][0]["content"] == [{"type": "output_audio", "transcript": " Hello there."}]
    assert {m.get("response_id", done["id"]) for m in told} == {done["id"]}
    assert len({m["event_id"] for m in told}) == len(told)


def test_the_beta_has_its_own_names_and_shapes() -> None:
    talk = Talk(beta=True, ready=False)
    (created,) = talk.tell(READY)
    assert created["session"]["voice"] == "NATF2" and "audio" not in created["session"]
    types = talk.types(*BURST)
    assert "conversation.item.created" in types
    assert "response.audio_transcript.delta" in types
    assert "response.audio_transcript.done" in types and "response.audio.done" in types
    assert not {"conversation.item.added", "conversation.item.done"} & set(types)
    assert not [t for t in types if "output_audio_transcript" in t]


def test_every_burst_has_ids_of_its_own_and_the_items_form_a_chain() -> None:
    talk = Talk()
    added = [m for m in talk.tell(*BURST, *BURST) if m["type"] == "conversation.item.added"]
    first, second = added
    assert first["item"]["id"] != second["item"]["id"]
    assert first["previous_item_id"] is None
    assert second["previous_item_id"] == first["item"]["id"]


def test_two_calls_share_no_id() -> None:
    other = RealtimeDialect(Session(id="sess_xyz", model="m"))
    ids = {m["event_id"] for m in Talk(ready=False).tell(READY)}
    assert not ids & {json.loads(m)["event_id"] for m in other.encode(READY)}


def test_the_callers_speech_is_an_item_that_can_be_retrieved() -> None:
    talk = Talk()
    told = talk.tell(speech(10, "caller", True), speech(25, "caller", False))
    assert [m["type"] for m in told] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert told[0]["audio_start_ms"] == 800 and told[1]["audio_end_ms"] == 2000
    item_id = told[0]["item_id"]
    (retrieved,), _ = talk.receive({"type": "conversation.item.retrieve", "item_id": item_id})
    assert retrieved["type"] == "conversation.item.retrieved"
    assert retrieved["item"]["role"] == "user"
    assert retrieved["item"]["content"] == [{"type": "input_audio", "transcript": None}]


@pytest.mark.parametrize("item_id", ["item_gone", None, 3, ["x"]])
def test_an_unknown_item_is_an_error(item_id: Any) -> None:
    (reply,), _ = Talk().receive({"type": "conversation.item.retrieve", "item_id": item_id})
    assert reply["error"]["code"] == "item_not_found"


def test_cancel_ends_the_response_and_flushes_what_was_not_played() -> None:
    talk = Talk()
    talk.tell(*BURST[:2])
    replies, commands = talk.receive({"type": "response.cancel"})
    assert commands == [events.FlushPlayout()]
    done = next(m for m in replies if m["type"] == "response.done")["response"]
    assert done["status"] == "cancelled"
    assert done["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    assert replies[-1]["type"] == "output_audio_buffer.cleared"
    again = talk.tell(Text(frame=4, delta=" Well"))
    assert again[0]["type"] == "response.created"
    assert again[0]["response"]["id"] != done["id"]


def test_cancel_without_a_response_is_an_error_and_flushes_nothing() -> None:
    (reply,), commands = Talk().receive({"type": "response.cancel", "event_id": "mine"})
    assert commands == []
    assert reply["error"]["code"] == "response_cancel_not_active"
    assert reply["error"]["event_id"] == "mine"


def test_clear_flushes_and_the_response_goes_on() -> None:
    talk = Talk()
    talk.tell(*BURST[:2])
    (reply,), commands = talk.receive({"type": "output_audio_buffer.clear"})
    assert commands == [events.FlushPlayout()]
    assert reply["type"] == "output_audio_buffer.cleared" and reply["response_id"]
    assert talk.types(*BURST[2:])[-2:] == ["response.done", "output_audio_buffer.stopped"]


def test_early_instructions_make_the_persona_and_a_foreign_voice_is_let_go() -> None:
    talk = Talk()
    (updated,), commands = talk.receive(SDK_UPDATE)
    assert commands == [events.Configure(persona="You sell boats.", voice=None)]
    assert updated["type"] == "session.updated"
    assert updated["session"]["instructions"] == "You sell boats."
    assert updated["session"]["audio"]["output"]["voice"] == "NATF2"
    assert talk.receive(SDK_UPDATE)[1] == []


def test_the_betas_flat_session_is_read() -> None:
    (updated,), commands = Talk(beta=True).receive(BETA_UPDATE)
    assert commands == [events.Configure(persona="Be brief.", voice="NATM1")]
    assert updated["session"]["voice"] == "NATM1"


def test_late_instructions_are_refused_and_the_update_is_answered_all_the_same() -> None:
    replies, commands = Talk().receive(BETA_UPDATE, frame=events.CONFIGURE_FRAMES + 1)
    assert commands == []
    assert [m["type"] for m in replies] == ["error", "session.updated"]
    assert replies[0]["error"]["type"] == "invalid_request_error"
    assert replies[0]["error"]["event_id"] == "event_client_1"
    assert replies[1]["session"]["instructions"] == ""


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"type": "realtime", "tools": [{"name": "book"}]}, "session.tools"),
        ({"type": "realtime", "output_modalities": ["text"]}, "session.output_modalities"),
        ({"modalities": ["text"]}, "session.modalities"),
    ],
)
def test_what_cannot_be_had_is_said(session: dict[str, Any], param: str) -> None:
    replies, _ = Talk().receive({"type": "session.update", "session": session})
    assert replies[0]["error"]["param"] == param
    assert replies[-1]["type"] == "session.updated"


@pytest.mark.parametrize("session", [None, 3, [], {"instructions": 5}, {"audio": []}])
def test_a_session_that_is_none_is_an_error_and_answered(session: Any) -> None:
    replies, commands = Talk().receive({"type": "session.update", "session": session})
    assert commands == []
    assert [m["type"] for m in replies] == ["error", "session.updated"]


@pytest.mark.parametrize(
    "type_",
    ["response.create", "conversation.item.create", "input_audio_buffer.append", "made.up"],
)
def test_what_has_no_meaning_here_is_refused(type_: str) -> None:
    (reply,), commands = Talk().receive({"type": type_, "event_id": "e1"})
    assert commands == []
    assert reply["type"] == "error"
    assert reply["error"]["type"] == "invalid_request_error"
    assert reply["error"]["event_id"] == "e1" and reply["error"]["param"] == "type"


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"type": 3}', "[" * 5000])
def test_what_is_no_event_is_an_error(body: str) -> None:
    (reply,), _ = Talk().receive(body)
    assert reply["error"]["code"] == "invalid_json"


def test_notices_and_endings() -> None:
    talk = Talk()
    assert talk.types(Stats(figures={}), Notice(code="dtmf", message="…")) == []
    (overload,) = talk.tell(Notice(code="overload", message="Too slow."))
    assert overload["error"]["type"] == "server_error"
    assert talk.types(Ended(reason="hangup", message="")) == []
    (expired,) = Talk().tell(Ended(reason="call_limit", message="Time is up."))
    assert expired["error"]["code"] == "session_expired"


def test_an_ending_closes_the_response() -> None:
    talk = Talk()
    talk.tell(*BURST[:3])
    assert "response.done" in talk.types(Ended(reason="hangup", message=""))


def test_a_voice_object_names_its_voice() -> None:
    assert read_wishes({"audio": {"output": {"voice": {"id": "NATF0"}}}}).voice == "NATF0"


def test_another_kind_of_session_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        read_wishes({"type": "transcription"})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(
    st.sampled_from(
        ["session.update", "response.cancel", "conversation.item.retrieve", "response.create"]
    ),
    st.dictionaries(
        st.sampled_from(["session", "item_id", "event_id", "response"]),
        json_values
        | st.fixed_dictionaries(
            {},
            optional={
                "instructions": json_values,
                "voice": json_values,
                "audio": json_values,
                "tools": json_values,
            },
        ),
    ),
)
def test_no_client_event_makes_it_raise(type_: str, fields: dict[str, Any]) -> None:
    replies, _ = Talk().receive(fields | {"type": type_})
    assert replies
