"""Answering a changed session description (a re-INVITE) without renegotiating the connection.

The connection between this server and the gateway stays as it is: what a telephone changes (hold,
resume, another address, a session refresh) is between it and the gateway. So the answer is the
description given at the start, with another direction and a higher version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rtc_agent.errors import UnsupportedOffer
from rtc_agent.protocol.sdp import DIRECTIONS, Description, Section

_ANSWER = {
    "sendrecv": "sendrecv",
    "sendonly": "recvonly",
    "recvonly": "sendonly",
    "inactive": "inactive",
}


@dataclass(frozen=True, slots=True)
class Update:
    """What a changed offer comes to."""

    sdp: str
    held: bool
    """The telephone no longer listens."""


def answer_update(local: str, offer: str, version: int) -> Update:
    """Answer a changed offer with what was agreed on before.

    Args:
        local: the description this side gave first, as an answer or as an offer.
        version: for the `o=` line; counts up with every update.

    Raises:
        UnsupportedOffer: the codec in use is no longer offered.
    """
    ours = Description.parse(local)
    theirs = Description.parse(offer)
    sections: list[Section] = []
    held = False
    mine = next((s for s in ours.sections if s.kind == "audio"), None)
    for section in theirs.sections:
        if section.kind != "audio" or section.rejected or mine is None:
            sections.append(_rejected(section))
            continue
        _check_codec(mine, section)
        held = section.direction in ("sendonly", "inactive")
        answer = _directed(mine, _ANSWER[section.direction])
        sections.append(_with_setup(_with_mid(answer, section.mid), "active"))
        mine = None
    return Update(str(Description(_session(ours, version), tuple(sections))), held)


def offer_again(local: str, version: int) -> str:
    """The same description as an offer, for a re-INVITE that brought none."""
    ours = Description.parse(local)
    sections = tuple(
        _with_setup(_directed(s, "sendrecv"), "actpass") if s.kind == "audio" else s
        for s in ours.sections
    )
    return str(Description(_session(ours, version), sections))


def direction(sdp: str) -> str:
    """The direction of a description's audio; `inactive` if it has none."""
    audio = [s for s in Description.parse(sdp).sections if s.kind == "audio" and not s.rejected]
    return audio[0].direction if audio else "inactive"


def _check_codec(mine: Section, offered: Section) -> None:
    used = next(iter(mine.codec_names().items()), None)
    if used is None:
        return
    payload_type, name = used
    if _plain(offered.codec_names().get(payload_type, "")) != _plain(name):
        raise UnsupportedOffer(f"The codec in use, {name}, is no longer offered.")


def _plain(codec: str) -> str:
    """A codec's name for comparison; one channel is what is meant when none is given."""
    return codec.lower().removesuffix("/1")


def _session(ours: Description, version: int) -> tuple[str, ...]:
    return tuple(_with_version(line, version) for line in ours.session)


def _with_version(line: str, version: int) -> str:
    words = line.split(" ")
    if not line.startswith("o=") or len(words) != 6 or not words[2].isdigit():
        return line
    words[2] = str(int(words[2]) + version)
    return " ".join(words)


def _directed(section: Section, direction: str) -> Section:
    lines = [line for line in section.lines if line[2:] not in DIRECTIONS]
    return replace(section, lines=(*lines, f"a={direction}"))


def _with_setup(section: Section, setup: str) -> Section:
    role = section.attribute("setup")
    if role is None or (role in ("active", "passive") and setup == "active"):
        # The DTLS roles of a live connection stay what they are (RFC 8842, 5.5).
        return section
    lines = tuple(
        f"a=setup:{setup}" if line.startswith("a=setup:") else line for line in section.lines
    )
    return replace(section, lines=lines)


def _with_mid(section: Section, mid: str | None) -> Section:
    if mid is None or section.mid == mid:
        return section
    lines = tuple(line for line in section.lines if not line.startswith("a=mid:"))
    return replace(section, lines=(*lines, f"a=mid:{mid}"))


def _rejected(section: Section) -> Section:
    formats = " ".join(section.formats)
    return Section.parse([f"m={section.kind} 0 {section.profile} {formats}", "c=IN IP4 0.0.0.0"])
