"""A changed description is answered with what was agreed on, in another direction."""

from __future__ import annotations

import pytest

from rtc_agent.errors import UnsupportedOffer
from rtc_agent.protocol.reinvite import answer_update, direction, offer_again
from rtc_agent.protocol.sdp import Description

LOCAL = """v=0
o=- 7 3 IN IP4 0.0.0.0
s=-
t=0 0
m=audio 5000 UDP/TLS/RTP/SAVPF 0 101
c=IN IP4 10.0.0.1
a=sendrecv
a=mid:audio
a=rtpmap:0 PCMU/8000
a=rtpmap:101 telephone-event/8000
a=candidate:1 1 udp 1 10.0.0.1 5000 typ host
a=ice-ufrag:abcd
a=ice-pwd:0123456789012345678901
a=fingerprint:sha-256 AA
a=setup:active
"""
OFFER = """v=0
o=phone 1 2 IN IP4 1.1.1.1
s=-
t=0 0
m=audio 9 UDP/TLS/RTP/SAVPF 8 0 101
a=mid:audio
a=rtpmap:0 PCMU/8000
a={direction}
a=setup:actpass
"""


@pytest.mark.parametrize(
    ("offered", "answered", "held"),
    [
        ("sendrecv", "sendrecv", False),
        ("sendonly", "recvonly", True),
        ("recvonly", "sendonly", False),
        ("inactive", "inactive", True),
    ],
)
def test_the_direction_is_mirrored_and_a_deaf_telephone_holds(
    offered: str, answered: str, held: bool
) -> None:
    update = answer_update(LOCAL, OFFER.format(direction=offered), version=2)
    assert update.held is held
    section = Description.parse(update.sdp).sections[0]
    assert section.direction == answered
    assert [d for d in ("sendrecv", "sendonly", "recvonly", "inactive") if section.flag(d)] == [
        answered
    ]


def test_the_connection_stays_and_the_version_rises() -> None:
    update = answer_update(LOCAL, OFFER.format(direction="sendrecv"), version=2)
    description = Description.parse(update.sdp)
    assert description.session[1] == "o=- 7 5 IN IP4 0.0.0.0"
    section = description.sections[0]
    assert section.attribute("ice-ufrag") == "abcd"
    assert section.attribute("fingerprint") == "sha-256 AA"
    assert section.attribute("setup") == "active"
    assert section.formats == ("0", "101")


def test_a_codec_that_went_away_cannot_be_answered() -> None:
    offer = OFFER.format(direction="sendrecv").replace("8 0 101", "8 101")
    with pytest.raises(UnsupportedOffer, match="PCMU"):
        answer_update(LOCAL, offer, version=1)


def test_every_offered_section_gets_an_answer() -> None:
    offer = OFFER.format(direction="sendrecv") + "m=video 9 RTP/AVP 96\na=rtpmap:96 H264/90000\n"
    sections = Description.parse(answer_update(LOCAL, offer, version=1).sdp).sections
    assert [(s.kind, s.port) for s in sections] == [("audio", 5000), ("video", 0)]


def test_an_offer_of_the_same_lets_the_other_side_choose_roles() -> None:
    text = offer_again(LOCAL.replace("a=sendrecv", "a=recvonly"), version=1)
    section = Description.parse(text).sections[0]
    assert section.direction == "sendrecv"
    assert section.attribute("setup") == "actpass"
    assert direction(text) == "sendrecv"
    assert direction("v=0\ns=-\n") == "inactive"
