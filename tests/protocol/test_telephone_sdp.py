"""One codec for a telephone, and its keys."""

from __future__ import annotations

import pytest

from rtc_agent.protocol.sdp import Description
from rtc_agent.protocol.telephone_sdp import only_best_codec, telephone_event_type

PREFERRED = ("G722", "opus", "PCMA", "PCMU")
OFFER = """v=0
o=- 1 1 IN IP4 1.2.3.4
s=-
t=0 0
m=audio 9 UDP/TLS/RTP/SAVPF {formats}
a=mid:audio
a=rtpmap:0 PCMU/8000
a=rtpmap:96 opus/48000/2
a=fmtp:96 useinbandfec=1
a=rtpmap:101 telephone-event/8000
a=fmtp:101 0-16
a=rtpmap:102 telephone-event/48000
a=rtpmap:13 CN/8000
a=sendrecv
"""


def audio_of(formats: str) -> tuple[list[str], list[str]]:
    text = only_best_codec(OFFER.format(formats=formats), PREFERRED)
    section = Description.parse(text).sections[0]
    about = [line for line in section.lines if line.startswith(("a=rtpmap", "a=fmtp"))]
    return list(section.formats), about


@pytest.mark.parametrize(
    ("formats", "kept"),
    [
        ("101 13 0 8 9", ["9", "101"]),
        ("0 8 101", ["8", "101"]),
        ("0 13", ["0"]),
        ("0 96 101", ["96", "101"]),
        ("0 96 101 102", ["96", "102"]),
        ("0 102", ["0"]),
    ],
)
def test_the_best_codec_stays_with_keys_of_its_own_rate(formats: str, kept: list[str]) -> None:
    assert audio_of(formats)[0] == kept


def test_nothing_is_said_about_what_was_left_out() -> None:
    _, about = audio_of("0 96 101")
    assert about == [
        "a=rtpmap:96 opus/48000/2",
        "a=fmtp:96 useinbandfec=1",
        "a=rtpmap:101 telephone-event/8000",
        "a=fmtp:101 0-16",
    ]


def test_an_offer_of_nothing_known_comes_back_as_it_was() -> None:
    text = OFFER.format(formats="13").replace("\n", "\r\n")
    assert only_best_codec(text, PREFERRED) == text


def test_the_payload_type_of_keys() -> None:
    section = Description.parse(OFFER.format(formats="0 101")).sections[0]
    assert telephone_event_type(section) == 101
    assert telephone_event_type(Description.parse(OFFER.format(formats="0")).sections[0]) is None
