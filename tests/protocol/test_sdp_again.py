"""Offers of one direction, and offers made anew over the connection that there is."""

from __future__ import annotations

import pytest

from rtc_agent.errors import CallConflict, UnsupportedOffer
from rtc_agent.protocol import sdp
from rtc_agent.protocol.sdp import Flow
from tests.protocol.test_sdp import OPUS, answer_to, audio, data, offer, video


@pytest.mark.parametrize(
    ("flow", "accepted"),
    [
        (Flow.CALL, {"sendrecv"}),
        (Flow.CALL_OR_INGEST, {"sendrecv", "sendonly"}),
        (Flow.INGEST, {"sendrecv", "sendonly"}),
        (Flow.LISTEN, {"sendrecv", "recvonly"}),
    ],
)
def test_each_flow_takes_its_directions(flow: Flow, accepted: set[str]) -> None:
    for direction in sdp.DIRECTIONS:
        text = offer(audio(direction=direction), bundle="0")
        if direction in accepted:
            assert sdp.read_offer(text, flow).audio.direction == direction
        else:
            with pytest.raises(UnsupportedOffer, match="Offer `"):
                sdp.read_offer(text, flow)


FIRST = sdp.read_offer(offer(audio(), video(), data()))
ANSWER = answer_to(FIRST.reduced)


def again(text: str) -> str:
    return sdp.answer_again(FIRST, sdp.read_offer(text), ANSWER)


def test_the_same_offer_is_answered_the_same_but_for_its_version() -> None:
    answer = again(offer(audio(), video(), data()))
    assert answer.replace("o=- 1 3 ", "o=- 1 2 ") == ANSWER
    assert "o=- 1 3 " in answer


def test_sections_that_are_not_used_may_come_and_go() -> None:
    text = offer(audio(), video(), data(), video(mid="3"), bundle="0 1 2 3")
    answer = sdp.complete_answer(sdp.read_offer(text), again(text))
    assert answer.count("m=video") == 2


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (offer(audio(), video(), data()).replace("abcd", "wxyz"), "an ICE restart"),
        (offer(audio(), video(), data()).replace("AA:BB", "CC:DD"), "another certificate"),
        (offer(audio(), video()), "another data channel section"),
        (offer(audio(mid="5"), video(), data(), bundle="5 1 2"), "another media section"),
        (
            offer(audio(codecs=OPUS.replace("111", "112"), formats="112"), video(), data()),
            "other codecs",
        ),
    ],
)
def test_what_cannot_be_changed_is_named(text: str, what: str) -> None:
    with pytest.raises(CallConflict, match=what):
        again(text)
