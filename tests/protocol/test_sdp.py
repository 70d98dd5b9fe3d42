"""Offers of every shape, reduced to what is negotiated; answers with everything back in place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.errors import InvalidOffer, RtcAgentError, UnsupportedOffer
from rtc_agent.protocol import sdp

TRANSPORT = (
    "a=ice-ufrag:abcd\r\na=ice-pwd:aaaaaaaaaaaaaaaaaaaaaaaa\r\n"
    "a=fingerprint:sha-256 AA:BB\r\na=setup:actpass\r\n"
)
HEAD = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
OPUS = "a=rtpmap:111 opus/48000/2\r\na=fmtp:111 minptime=10;useinbandfec=1\r\n"


def audio(
    mid: str = "0",
    codecs: str = OPUS,
    formats: str = "111",
    direction: str = "sendrecv",
    port: int = 9,
    transport: str = TRANSPORT,
    extra: str = "a=rtcp-mux\r\n",
) -> str:
    return (
        f"m=audio {port} UDP/TLS/RTP/SAVPF {formats}\r\nc=IN IP4 0.0.0.0\r\na=mid:{mid}\r\n"
        f"a={direction}\r\n{extra}{transport}{codecs}"
    )


def video(mid: str = "1", transport: str = TRANSPORT) -> str:
    return (
        f"m=video 9 UDP/TLS/RTP/SAVPF 98 99\r\nc=IN IP4 0.0.0.0\r\na=mid:{mid}\r\na=sendrecv\r\n"
        f"a=rtcp-mux\r\n{transport}a=rtpmap:98 VP9/90000\r\na=fmtp:98 profile-id=0\r\n"
        "a=rtpmap:99 rtx/90000\r\na=fmtp:99 apt=98\r\n"
    )


def data(mid: str = "2", transport: str = TRANSPORT) -> str:
    return (
        f"m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=mid:{mid}\r\n"
        f"{transport}a=sctp-port:5000\r\n"
    )


def offer(*sections: str, bundle: str | None = "0 1 2") -> str:
    group = "" if bundle is None else f"a=group:BUNDLE {bundle}\r\n"
    return HEAD + group + "".join(sections)


def answer_to(reduced: str) -> str:
    """What a negotiation would answer: the same sections, taken up."""
    return (
        reduced.replace("a=setup:actpass", "a=setup:active")
        .replace("ice-ufrag:abcd", "ice-ufrag:ours")
        .replace(" 9 ", " 50000 ")
    )


def test_audio_and_data_stay_video_goes() -> None:
    read = sdp.read_offer(offer(audio(), video(), data()))
    assert "m=video" not in read.reduced
    assert "a=group:BUNDLE 0 2\r\n" in read.reduced
    assert read.left_out == (1,)
    assert read.bundled
    assert read.audio.codec_names() == {111: "opus/48000/2"}
    assert read.audio.parameters(111) == {"minptime": "10", "useinbandfec": "1"}


def test_video_is_answered_inactive_in_place_whatever_its_codec() -> None:
    read = sdp.read_offer(offer(audio(), video(), data()))
    answer = sdp.Description.parse(sdp.complete_answer(read, answer_to(read.reduced)))
    assert [s.kind for s in answer.sections] == ["audio", "video", "application"]
    refused = answer.sections[1]
    assert refused.direction == "inactive" and refused.port == 9 and refused.mid == "1"
    assert refused.formats == ("98",) and refused.codec_names() == {98: "VP9/90000"}
    assert refused.attribute("ice-ufrag") == "ours"
    assert refused.attribute("setup") == "active"
    assert answer.bundle == ("0", "1", "2")


def test_a_section_without_bundle_is_rejected() -> None:
    read = sdp.read_offer(offer(audio(), video(), data(), bundle=None))
    assert not read.bundled
    answer = sdp.Description.parse(sdp.complete_answer(read, answer_to(read.reduced)))
    assert answer.sections[1].port == 0
    assert answer.bundle == ()


@pytest.mark.parametrize("group", ["", " ", "BUNDLE", "LS 0 1"])
def test_a_group_without_semantics_or_members_bundles_nothing(group: str) -> None:
    offer = sdp.read_offer(f"{HEAD}a=group:{group}\r\n{audio()}")
    assert offer.original.bundle == ()


def test_transport_only_in_the_tagged_section() -> None:
    """Under max-bundle the first section alone may carry candidates and credentials, and the others
    have port 0."""
    tagged = video("1") + "a=candidate:1 1 udp 2113937151 192.0.2.1 5000 typ host\r\n"
    only = audio(transport="", port=0, extra="a=rtcp-mux\r\na=bundle-only\r\n")
    read = sdp.read_offer(offer(tagged, only, bundle="1 0"))
    assert read.audio.attribute("ice-ufrag") == "abcd"
    assert read.audio.attribute("fingerprint") == "sha-256 AA:BB"
    assert read.audio.attributes("candidate") == ["1 1 udp 2113937151 192.0.2.1 5000 typ host"]
    assert read.audio.port == 9
    assert "a=group:BUNDLE 0\r\n" in read.reduced
    answer = sdp.Description.parse(sdp.complete_answer(read, answer_to(read.reduced)))
    assert [s.mid for s in answer.sections] == ["1", "0"]
    assert answer.bundle == ("1", "0")


def test_the_second_audio_section_is_used_if_the_first_cannot_be() -> None:
    read = sdp.read_offer(offer(audio("0", direction="recvonly"), audio("1"), bundle="0 1"))
    assert read.audio.mid == "1"
    assert read.left_out == (0,)


def test_static_payload_types_need_no_map() -> None:
    read = sdp.read_offer(offer(audio(codecs="", formats="0"), bundle="0"))
    assert read.audio.codec_names() == {0: "PCMU/8000"}


def test_the_end_of_candidates_is_left_open() -> None:
    ended = audio() + "a=end-of-candidates\r\n"
    assert "end-of-candidates" not in sdp.read_offer(offer(ended, bundle="0")).reduced


def test_a_missing_mid_is_made_up() -> None:
    read = sdp.read_offer(offer(audio().replace("a=mid:0\r\n", ""), bundle=None))
    assert read.audio.mid == "0"


def test_line_ends_and_blank_lines_do_not_matter() -> None:
    text = offer(audio(), data(), bundle="0 2").replace("\r\n", "\n") + "\n\n"
    assert sdp.read_offer(text).audio.mid == "0"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", InvalidOffer, "empty"),
        ("   \r\n", InvalidOffer, "empty"),
        ("hello", InvalidOffer, "does not start"),
        ("{}", InvalidOffer, "does not start"),
        ("v=0\r\n" + "a=x\r\n" * 300_000, InvalidOffer, "longer than"),
        ("v=0\r\n" + "m=audio 9 X 0\r\n" * 100, InvalidOffer, "more than 32"),
        ("v=0\r\nm=audio\r\n", InvalidOffer, "media line"),
        (HEAD, UnsupportedOffer, "no audio section"),
        (offer(data(), bundle="2"), UnsupportedOffer, "no audio section"),
        (offer(video(), bundle="1"), UnsupportedOffer, "no audio section"),
        (offer(audio(port=0)), UnsupportedOffer, "rejected"),
        (offer(audio(direction="recvonly")), UnsupportedOffer, "could not hear"),
        (offer(audio(direction="sendonly")), UnsupportedOffer, "hear the agent"),
        (offer(audio(direction="inactive")), UnsupportedOffer, "no audio would flow"),
        (
            offer(audio(codecs="a=rtpmap:111 iLBC/8000\r\n")),
            UnsupportedOffer,
            "No common audio codec: offered iLBC/8000",
        ),
        (offer(audio(codecs="")), UnsupportedOffer, "No common audio codec"),
        (offer(audio(extra="")), UnsupportedOffer, "rtcp-mux"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_what_cannot_be_answered_says_why(
    text: str, error: type[RtcAgentError], words: str
) -> None:
    with pytest.raises(error, match=words):
        sdp.read_offer(text)


@settings(deadline=None)
@given(st.text(max_size=400))
def test_garbage_is_refused_in_words(text: str) -> None:
    try:
        sdp.read_offer("v=0\r\n" + text)
    except (InvalidOffer, UnsupportedOffer) as refusal:
        assert refusal.message


@settings(deadline=None)
@given(st.data())
def test_a_mangled_offer_is_read_or_refused(draw: st.DataObject) -> None:
    lines = offer(audio(), video(), data()).split("\r\n")
    for _ in range(draw.draw(st.integers(1, 6))):
        i = draw.draw(st.integers(0, len(lines) - 1))
        lines[i] = draw.draw(
            st.one_of(st.just(""), st.just(lines[i][: len(lines[i]) // 2]), st.text(max_size=30))
        )
    try:
        read = sdp.read_offer("\r\n".join(lines))
    except (InvalidOffer, UnsupportedOffer):
        return
    assert read.audio.kind == "audio"


def test_opus_parameters_of_an_answer_are_replaced() -> None:
    answer = offer(audio(codecs=OPUS + "a=rtpmap:0 PCMU/8000\r\n", formats="111 0"), bundle="0")
    tuned = sdp.tune_answer(answer, {"minptime": "10", "useinbandfec": "1", "stereo": "0"})
    section = sdp.Description.parse(tuned).sections[0]
    assert section.parameters(111) == {"minptime": "10", "useinbandfec": "1", "stereo": "0"}
    assert section.parameters(0) == {}
    assert tuned.count("a=fmtp:") == 1


def test_rtcp_mux_only_is_mirrored_where_it_was_asked_for_and_media_are_bundled() -> None:
    only = "a=rtcp-mux\r\na=rtcp-mux-only\r\n"
    read = sdp.read_offer(offer(audio(extra=only), video(), data()))
    plain = sdp.complete_answer(read, answer_to(read.reduced.replace("a=rtcp-mux-only\r\n", "")))
    assert "rtcp-mux-only" not in plain
    mirrored = sdp.mirror_mux_only(read, plain)
    assert mirrored == plain.replace("a=rtcp-mux\r\n", only, 1)
    unasked = sdp.read_offer(offer(audio(), video(), data()))
    assert sdp.mirror_mux_only(unasked, plain) == plain
    alone = sdp.read_offer(offer(audio(extra=only), bundle=None))
    text = sdp.complete_answer(alone, answer_to(alone.reduced.replace("a=rtcp-mux-only\r\n", "")))
    assert sdp.mirror_mux_only(alone, text) == text


def test_private_hosts_are_announced_by_the_public_address() -> None:
    lines = (
        "a=candidate:1 1 udp 2130706431 10.0.0.5 40000 typ host\r\n"
        "a=candidate:2 1 udp 2130706431 fd00::5 40000 typ host\r\n"
        "a=candidate:3 1 udp 16777215 198.51.100.7 50000 typ relay raddr 0.0.0.0 rport 9\r\n"
    )
    edited = sdp.rewrite_host_candidates(
        offer(audio() + lines, bundle="0"), {"10.0.0.5"}, "203.0.113.9"
    )
    assert "udp 2130706431 203.0.113.9 40000 typ host" in edited
    assert "fd00::5" in edited and "198.51.100.7" in edited and "10.0.0.5" not in edited


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("", None),
        ("  ", None),
        ("candidate:", None),
        ("a=end-of-candidates", None),
        ("end-of-candidates", None),
        ("candidate:1 1 udp 1 192.0.2.1 9 typ host", "1 1 udp 1 192.0.2.1 9 typ host"),
        ("a=candidate:1 1 udp 1 192.0.2.1 9 typ host", "1 1 udp 1 192.0.2.1 9 typ host"),
    ],
)
def test_candidates_lose_their_prefixes(text: str | None, expected: str | None) -> None:
    assert sdp.candidate_text(text) == expected


def test_candidates_without_a_port_to_send_to_are_left_out() -> None:
    odd = ["0", "65536", "99999", "x", "-1", "9" * 5_000]
    lines = "".join(
        f"a=candidate:1 1 udp 2130706431 127.0.0.1 {port} typ host\r\n" for port in [*odd, "4000"]
    )
    read = sdp.read_offer(offer(audio(extra=f"a=rtcp-mux\r\n{lines}")))
    assert [c.split()[5] for c in read.audio.attributes("candidate")] == ["4000"]
    assert "4000" in read.reduced and "99999" not in read.reduced
