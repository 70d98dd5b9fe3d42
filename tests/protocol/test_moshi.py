from __future__ import annotations

from rtc_agent.protocol.events import Ended, Levels, Ready, Speech, Stats, Text
from rtc_agent.protocol.moshi import MoshiDialect

READY = Ready(call_id="call-1", agent="echo", description="…")


def test_the_handshake_comes_once_and_is_read_by_its_first_byte() -> None:
    dialect = MoshiDialect()
    (message,) = dialect.encode(READY)
    assert message.encode() == bytes(9)
    assert dialect.encode(READY) == []


def test_text_is_its_kind_and_utf_8() -> None:
    (message,) = MoshiDialect().encode(Text(delta=" schön"))
    assert message.encode() == b"\x02 sch\xc3\xb6n"


def test_an_ending_that_the_caller_did_not_cause_is_an_error_message() -> None:
    (message,) = MoshiDialect().encode(Ended(reason="call_limit", message="Time is up."))
    assert message.encode() == b"\x05Time is up."
    assert MoshiDialect().encode(Ended(reason="hangup", message="")) == []


def test_there_are_no_words_for_the_rest() -> None:
    dialect = MoshiDialect()
    for event in (
        Speech(who="agent", speaking=True, duration_ms=0),
        Stats(figures={}),
        Levels(caller=0, agent=0),
    ):
        assert dialect.encode(event) == []


def test_control_messages_are_let_go() -> None:
    assert MoshiDialect().decode("\x03\x02", 0).replies == ()
    assert MoshiDialect().decode("", 0).commands == ()
