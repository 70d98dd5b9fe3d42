"""SIP messages as text, and one dialog's requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.protocol.sip import Dialog, SipMessage, audio_offer, media_address

RESPONSE = (
    b"SIP/2.0 200 OK\r\n"
    b"v: SIP/2.0/UDP 127.0.0.1:5;branch=z9hG4bKabc;rport=5\r\n"
    b"Record-Route: <sip:proxy1;lr>\r\n"
    b"Record-Route: <sip:proxy2;lr>\r\n"
    b"f: <sip:me@127.0.0.1:5>;tag=mine\r\n"
    b"t: <sip:agent@10.0.0.1>;tag=theirs\r\n"
    b"CSeq: 1 INVITE\r\n"
    b"m: <sip:agent@10.0.0.2:7777;transport=udp>\r\n"
    b"l: 4\r\n\r\nbody"
)


def parsed(data: bytes) -> SipMessage:
    message = SipMessage.parse(data)
    assert message is not None
    return message


def test_a_response_is_read_compact_headers_too() -> None:
    message = parsed(RESPONSE)
    assert (message.status, message.reason, message.method) == (200, "OK", "INVITE")
    assert message.branch == "z9hG4bKabc"
    assert message.header("from").endswith("tag=mine")
    assert message.every("record-route") == ["<sip:proxy1;lr>", "<sip:proxy2;lr>"]
    assert message.body == "body"


@given(st.binary(max_size=200))
def test_any_datagram_is_read_or_refused(data: bytes) -> None:
    message = SipMessage.parse(data)
    if message is not None:
        assert isinstance(message.status, int) and isinstance(message.method, str)


def test_what_is_written_is_read_again() -> None:
    dialog = Dialog("sip:agent@10.0.0.1", "sip:me@127.0.0.1:5")
    message = dialog.invite(audio_offer("127.0.0.1", 4000, 0, "PCMU/8000"))
    again = parsed(str(message).encode())
    assert again.start == message.start
    assert again.header("Content-Length") == str(len(message.body))
    assert media_address(again.body) == ("127.0.0.1", 4000)


def test_requests_after_the_answer_go_its_way() -> None:
    dialog = Dialog("sip:agent@10.0.0.1", "sip:me@127.0.0.1:5")
    invite = dialog.invite("")
    answer = parsed(RESPONSE)
    dialog.establish(answer)
    ack, bye = dialog.acknowledge(answer), dialog.request("BYE")
    for message in (ack, bye):
        assert message.start.split(" ")[1] == "sip:agent@10.0.0.2:7777;transport=udp"
        assert message.every("Route") == ["<sip:proxy2;lr>", "<sip:proxy1;lr>"]
        assert message.header("To").endswith(";tag=theirs")
    assert ack.header("CSeq") == "1 ACK" and bye.header("CSeq") == "2 BYE"
    assert len({invite.branch, ack.branch, bye.branch}) == 3


def test_a_refusal_is_acknowledged_within_its_transaction() -> None:
    dialog = Dialog("sip:agent@10.0.0.1", "sip:me@127.0.0.1:5")
    invite = dialog.invite("")
    refused = parsed(RESPONSE.replace(b"200 OK", b"486 Busy Here"))
    ack = dialog.acknowledge(refused)
    assert ack.branch == invite.branch == dialog.cancel().branch
    assert ack.header("To").endswith(";tag=theirs")
    assert ack.header("CSeq") == "1 ACK"


def test_an_answer_without_audio_has_no_address() -> None:
    assert media_address("v=0\r\nc=IN IP4 1.2.3.4\r\nm=audio 0 RTP/AVP 0\r\n") is None
    assert media_address("v=0\r\n") is None
