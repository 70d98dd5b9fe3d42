"""Telephone offers: one codec out of many, and the payload type of the keys beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rtc_agent.protocol.sdp import Description, Section

TELEPHONE_EVENT = "telephone-event"


def only_best_codec(offer: str, preferred: Sequence[str]) -> str:
    """An offer whose audio has nothing but its best codec, and the keys told within audio.

    A gateway passes audio on as it is: the codec of this answer is the telephone's. An offer
    without any codec of `preferred` comes back unchanged.

    Args:
        preferred: RTP names, the best one first.
    """
    description = Description.parse(offer)
    sections = tuple(
        _reduced(section, preferred)
        if section.kind == "audio" and not section.rejected
        else section
        for section in description.sections
    )
    return str(replace(description, sections=sections))


def telephone_event_type(section: Section) -> int | None:
    """The payload type of keys in an audio section; None if it has none."""
    return next(
        (
            payload_type
            for payload_type, name in section.codec_names().items()
            if name.lower().startswith(f"{TELEPHONE_EVENT}/")
        ),
        None,
    )


def _reduced(section: Section, preferred: Sequence[str]) -> Section:
    names = section.codec_names()
    best = next(
        (
            payload_type
            for wanted in preferred
            for payload_type, name in names.items()
            if name.partition("/")[0].lower() == wanted.lower()
        ),
        None,
    )
    if best is None:
        return section
    keep = [best]
    rates = [names[best].split("/")[1], "8000"]
    for rate in rates:
        keys = [pt for pt, name in names.items() if name.lower() == f"{TELEPHONE_EVENT}/{rate}"]
        if keys:
            keep.append(keys[0])
            break
    return _keep_formats(section, [str(payload_type) for payload_type in keep])


def _keep_formats(section: Section, formats: list[str]) -> Section:
    words = section.lines[0].split(" ")
    lines = [" ".join([*words[:3], *formats])]
    for line in section.lines[1:]:
        about = line.partition(":")[2].partition(" ")[0]
        if line.startswith(("a=rtpmap:", "a=fmtp:", "a=rtcp-fb:")) and about not in formats:
            continue
        lines.append(line)
    return Section.parse(lines)
