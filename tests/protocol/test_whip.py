from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.errors import InvalidRequest, PreconditionFailed, PreconditionRequired, RtcAgentError
from rtc_agent.protocol.whip import (
    Candidate,
    check_match,
    ice_server_links,
    is_restart,
    offered_ufrag,
    parse_fragment,
    restart_credentials,
    write_fragment,
)

HOST = "1387637174 1 udp 2122260223 192.0.2.1 61764 typ host generation 0 ufrag EsAw network-id 1"
WHIP_JS = (
    "a=ice-ufrag:EsAw\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\n"
    f"m=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:0\r\na=candidate:{HOST}\r\na=end-of-candidates\r\n"
)
"""As whip-whep 1.2.0 writes it: credentials before the media section."""
RFC = (
    "a=group:BUNDLE 0 1\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\n"
    f"a=ice-ufrag:EsAw\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\na=candidate:{HOST}\r\n"
    "a=end-of-candidates\r\n"
)
"""As the RFC's example has it: credentials inside."""


@pytest.mark.parametrize("text", [WHIP_JS, RFC, RFC.replace("\r\n", "\n")])
def test_both_shapes_of_a_fragment(text: str) -> None:
    fragment = parse_fragment(text)
    assert fragment.ufrag == "EsAw" and fragment.password == "P2uYro0UCOQ4zxjKXaWCBui1"
    assert fragment.candidates == (Candidate(HOST, "0"),)
    assert fragment.ended


def test_a_fragment_without_candidates_and_end() -> None:
    fragment = parse_fragment("a=ice-ufrag:x\r\na=ice-pwd:y\r\n")
    assert fragment.candidates == () and not fragment.ended


@pytest.mark.parametrize("text", ["hello", "a=ok\r\n{}\r\n", "a=candidate:x\n" * 9000])
def test_what_is_no_fragment(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_fragment(text)


@given(st.text(max_size=300))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        parse_fragment(text)
    except InvalidRequest:
        pass


def test_a_fragment_that_is_written_reads_the_same() -> None:
    text = write_fragment("0", "EsAw", "P2uYro0UCOQ4zxjKXaWCBui1", [HOST])
    fragment = parse_fragment(text)
    assert fragment == parse_fragment(RFC)
    assert restart_credentials(fragment) == ("EsAw", "P2uYro0UCOQ4zxjKXaWCBui1")


@pytest.mark.parametrize(
    "lines", ["", "a=ice-ufrag:EsAw", "a=ice-ufrag:a b c d\r\na=ice-pwd:short"]
)
def test_a_restart_needs_both_credentials(lines: str) -> None:
    with pytest.raises(InvalidRequest):
        restart_credentials(parse_fragment(f"{lines}\r\n"))


def test_other_credentials_are_a_restart() -> None:
    ufrag = offered_ufrag("v=0\r\nm=audio 9 X 0\r\na=ice-ufrag:EsAw\r\na=ice-pwd:p\r\n")
    assert ufrag == "EsAw"
    assert not is_restart(parse_fragment(WHIP_JS), ufrag)
    assert is_restart(parse_fragment(WHIP_JS.replace("EsAw", "ABCD")), ufrag)
    assert not is_restart(parse_fragment("a=end-of-candidates"), ufrag)
    assert offered_ufrag("v=0\r\n") is None


@pytest.mark.parametrize("if_match", ['"tag"', '"other", "tag"', "*", ' "tag" '])
def test_matching_tags(if_match: str) -> None:
    check_match(if_match, '"tag"')


@pytest.mark.parametrize(
    ("if_match", "fault"),
    [
        (None, PreconditionRequired),
        ("", PreconditionFailed),
        ('"other"', PreconditionFailed),
        ("tag", PreconditionFailed),
        ('W/"tag"', PreconditionFailed),
    ],
)
def test_tags_that_do_not_match(if_match: str | None, fault: type[RtcAgentError]) -> None:
    with pytest.raises(fault):
        check_match(if_match, '"tag"')


def test_links_of_ice_servers() -> None:
    assert ice_server_links(
        [
            ("stun:stun.example:3478", None, None),
            ("turn:turn.example?transport=udp", "a", 'p"\\\r\nX: y'),
        ]
    ) == [
        '<stun:stun.example:3478>; rel="ice-server"',
        '<turn:turn.example?transport=udp>; rel="ice-server"; username="a"; '
        'credential="p\\"\\\\X: y"; credential-type="password"',
    ]
