"""Reading and editing session descriptions as text (RFC 8866), without any WebRTC library.

An offer is brought into the one shape this server answers, an audio section and at most one data
section, and the answer is given back the sections that were left out. Video is answered inactive
whatever its codecs are, so that a browser's choice of codec cannot end a call.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field, replace

from rtc_agent.errors import CallConflict, InvalidOffer, UnsupportedOffer

MAX_SDP_BYTES = 64 * 1024
"""Longer than any browser's offer by a factor of five."""
MAX_SECTIONS = 32

AUDIO_CODECS = ("opus", "G722", "PCMU", "PCMA")
"""Codecs this server speaks, by RTP name."""
STATIC_AUDIO = {0: "PCMU/8000", 8: "PCMA/8000", 9: "G722/8000"}
"""RFC 3551 payload types that need no rtpmap."""

DIRECTIONS = ("sendrecv", "sendonly", "recvonly", "inactive")


class Flow(enum.Enum):
    """Which way sound is to go, seen from the server; its values are the offers it takes."""

    CALL = ("sendrecv",)
    """Both ways: nothing less makes a conversation."""
    CALL_OR_INGEST = ("sendrecv", "sendonly")
    """Both ways if offered; else the caller is heard and hears nothing here."""
    INGEST = ("sendonly", "sendrecv")
    """The caller is heard only, whatever is offered."""
    LISTEN = ("recvonly", "sendrecv")
    """The peer hears only."""

    @property
    def direction(self) -> str:
        """Of this side's transceiver."""
        return {Flow.INGEST: "recvonly", Flow.LISTEN: "sendonly"}.get(self, "sendrecv")


_TRANSPORT_ATTRIBUTES = ("ice-ufrag", "ice-pwd", "ice-options", "fingerprint", "setup")
_MEDIA_LINE = re.compile(r"m=(\S+) (\d{1,5})(?:/\d+)? (\S+) (.+)")


@dataclass(frozen=True, slots=True)
class Section:
    """One `m=` section: its lines, without line ends, the `m=` line first."""

    lines: tuple[str, ...]
    kind: str
    port: int
    profile: str
    formats: tuple[str, ...]

    @classmethod
    def parse(cls, lines: list[str]) -> Section:
        match = _MEDIA_LINE.fullmatch(lines[0])
        if match is None:
            raise InvalidOffer(f"The media line {lines[0][:80]!r} cannot be read.")
        kind, port, profile, formats = match.groups()
        return cls(tuple(lines), kind, int(port), profile, tuple(formats.split()))

    def attributes(self, name: str) -> list[str]:
        """Values of every `a=name:value` line."""
        return _attributes(self.lines, name)

    def attribute(self, name: str) -> str | None:
        values = self.attributes(name)
        return values[0] if values else None

    def flag(self, name: str) -> bool:
        return f"a={name}" in self.lines

    @property
    def mid(self) -> str | None:
        return self.attribute("mid")

    @property
    def direction(self) -> str:
        """sendrecv unless the section says otherwise (RFC 8866, 6.7)."""
        return next((d for d in DIRECTIONS if self.flag(d)), "sendrecv")

    @property
    def rejected(self) -> bool:
        return self.port == 0 and not self.flag("bundle-only")

    def codec_names(self) -> dict[int, str]:
        """Payload type → `name/clock rate[/channels]`, in the order of the `m=` line."""
        maps = {}
        for value in self.attributes("rtpmap"):
            payload_type, _, name = value.partition(" ")
            maps[payload_type] = name.strip()
        names: dict[int, str] = {}
        for fmt in self.formats:
            if fmt.isascii() and fmt.isdigit():
                known = maps.get(fmt) or STATIC_AUDIO.get(int(fmt))
                if known is not None:
                    names[int(fmt)] = known
        return names

    def parameters(self, payload_type: int) -> dict[str, str]:
        """The format parameters of one payload type; a flag has an empty value."""
        for value in self.attributes("fmtp"):
            fmt, _, text = value.partition(" ")
            if fmt == str(payload_type):
                pairs = (item.strip().partition("=") for item in text.split(";") if item.strip())
                return {key.strip().lower(): val.strip() for key, _, val in pairs}
        return {}


@dataclass(frozen=True, slots=True)
class Description:
    """A session description as its session-level lines and its media sections."""

    session: tuple[str, ...]
    sections: tuple[Section, ...]

    @classmethod
    def parse(cls, text: str) -> Description:
        """Raises InvalidOffer for what is no session description."""
        if not text or not text.strip():
            raise InvalidOffer("The session description is empty.")
        if len(text.encode(errors="replace")) > MAX_SDP_BYTES:
            raise InvalidOffer(
                f"The session description is longer than {MAX_SDP_BYTES // 1024} KiB."
            )
        lines = [line.rstrip("\r") for line in text.strip().split("\n")]
        lines = [line.strip() for line in lines if line.strip()]
        if not lines[0].startswith("v="):
            raise InvalidOffer("This is no session description: it does not start with `v=`.")
        starts = [i for i, line in enumerate(lines) if line.startswith("m=")]
        if len(starts) > MAX_SECTIONS:
            raise InvalidOffer(f"The session description has more than {MAX_SECTIONS} sections.")
        ends = [*starts[1:], len(lines)][: len(starts)]
        sections = [Section.parse(lines[a:b]) for a, b in zip(starts, ends, strict=True)]
        session = lines[: starts[0]] if starts else lines
        return cls(tuple(session), tuple(sections))

    def __str__(self) -> str:
        lines = [*self.session, *(line for section in self.sections for line in section.lines)]
        return "\r\n".join(lines) + "\r\n"

    @property
    def bundle(self) -> tuple[str, ...]:
        """The mids that share one transport, the tagged one first; empty without BUNDLE."""
        for value in _attributes(self.session, "group"):
            semantics, _, mids = value.partition(" ")
            if semantics == "BUNDLE":
                return tuple(mids.split())
        return ()


@dataclass(frozen=True, slots=True)
class Offer:
    """What an offer asks for, and the offer reduced to what this server negotiates."""

    original: Description
    reduced: str
    """Offer text of only the audio section and, if there is one, the data section."""
    audio: Section
    data: Section | None
    left_out: tuple[int, ...] = field(default=())
    """Indices of the sections of the original that `reduced` lacks."""

    @property
    def bundled(self) -> bool:
        """Audio and data share one transport."""
        bundle = self.original.bundle
        return self.data is None or (self.audio.mid in bundle and self.data.mid in bundle)


def read_offer(text: str, flow: Flow = Flow.CALL) -> Offer:
    """Check an offer and reduce it.

    Raises:
        InvalidOffer: it cannot be understood, or lacks what every offer must carry.
        UnsupportedOffer: there is no audio to talk over; the message says why.
    """
    description = Description.parse(text)
    audio_index = _choose_audio(description, flow)
    data_index = next(
        (
            i
            for i, s in enumerate(description.sections)
            if s.kind == "application" and "SCTP" in s.profile and not s.rejected
        ),
        None,
    )
    keep = sorted(i for i in (audio_index, data_index) if i is not None)
    sections = {i: _with_transport(description, description.sections[i]) for i in keep}
    sections = {i: s if s.mid is not None else _with_mid(s, i) for i, s in sections.items()}
    sections = {i: _without_odd_candidates(s) for i, s in sections.items()}
    sections = {i: _open_ended(s) for i, s in sections.items()}
    bundle = description.bundle
    kept_bundle = [str(s.mid) for s in sections.values() if s.mid in bundle]
    session = [line for line in description.session if not line.startswith("a=group:")]
    if kept_bundle:
        session.append("a=group:BUNDLE " + " ".join(kept_bundle))
    audio = sections[audio_index]
    data = None if data_index is None else sections[data_index]
    for section in sections.values():
        _check_transport(description, section)
    reduced = Description(tuple(session), tuple(sections[i] for i in keep))
    left_out = tuple(i for i in range(len(description.sections)) if i not in keep)
    return Offer(description, str(reduced), audio, data, left_out)


def complete_answer(offer: Offer, answer: str) -> str:
    """Give the answer to `offer.reduced` the sections that the whole offer has.

    Video sections are answered inactive in the audio's transport; what cannot share it is rejected.
    """
    description = Description.parse(answer)
    answered = iter(description.sections)
    audio = next(s for s in description.sections if s.kind == "audio")
    bundle = offer.original.bundle
    sections: list[Section] = []
    for index, section in enumerate(offer.original.sections):
        if index not in offer.left_out:
            sections.append(next(answered))
        else:
            sections.append(_refuse(section, audio, section.mid in bundle))
    kept = [s.mid for s in sections if s.port != 0 and s.mid in bundle]
    session = [line for line in description.session if not line.startswith("a=group:BUNDLE")]
    if kept and bundle:
        order = [mid for mid in bundle if mid in kept]
        session.append("a=group:BUNDLE " + " ".join(order))
    return str(Description(tuple(session), tuple(sections)))


def answer_again(agreed: Offer, offer: Offer, answer: str) -> str:
    """The answer to another offer over the same transport, made of the one that was given.

    Only what is not used may have changed: sections of video, candidates, the order of codecs.

    Args:
        agreed: the offer that `answer` answered.
        answer: what it was answered, for the sections of `agreed.reduced`.

    Raises:
        CallConflict: the offer asks for something else; the message says what.
    """
    described = Description.parse(answer)
    ours = next(s for s in described.sections if s.kind == "audio")
    known = offer.audio.codec_names()
    changes = {
        "another media section for the audio": agreed.audio.mid != offer.audio.mid,
        "another direction": agreed.audio.direction != offer.audio.direction,
        "other codecs": any(known.get(pt) != name for pt, name in ours.codec_names().items()),
        "another data channel section": (agreed.data and agreed.data.mid)
        != (offer.data and offer.data.mid),
        "an ICE restart": _transport_value(agreed, "ice-ufrag")
        != _transport_value(offer, "ice-ufrag"),
        "another certificate": _transport_value(agreed, "fingerprint")
        != _transport_value(offer, "fingerprint"),
    }
    asked = [what for what, changed in changes.items() if changed]
    if asked:
        raise CallConflict(
            f"This connection cannot be changed so: the offer asks for {', '.join(asked)}. "
            "Make a new connection and offer it with `restart_pc`."
        )

    def next_version(line: str) -> str:
        words = line.split(" ")
        if line.startswith("o=") and len(words) > 2 and words[2].isdigit():
            words[2] = str(int(words[2]) + 1)
        return " ".join(words)

    session = tuple(next_version(line) for line in described.session)
    return str(replace(described, session=session))


def _transport_value(offer: Offer, name: str) -> str | None:
    """A transport attribute of the audio section, which may stand for the whole session."""
    values = [*offer.audio.attributes(name), *_attributes(offer.original.session, name)]
    return values[0] if values else None


def tune_answer(answer: str, parameters: dict[str, str]) -> str:
    """Set the Opus format parameters of an answer (RFC 7587, 6.1); other codecs are untouched."""
    description = Description.parse(answer)
    value = ";".join(f"{key}={val}" for key, val in parameters.items())
    sections = []
    for section in description.sections:
        lines: list[str] = []
        opus = {
            str(pt) for pt, name in section.codec_names().items() if name.lower() == "opus/48000/2"
        }
        for line in section.lines:
            if line.startswith("a=fmtp:") and line[7:].partition(" ")[0] in opus:
                continue
            lines.append(line)
            if line.startswith("a=rtpmap:") and (pt := line[9:].partition(" ")[0]) in opus:
                lines.append(f"a=fmtp:{pt} {value}")
        sections.append(replace(section, lines=tuple(lines)))
    return str(replace(description, sections=tuple(sections)))


def mirror_mux_only(offer: Offer, answer: str) -> str:
    """Say `rtcp-mux-only` in every section of an answer whose offered one says it and is bundled.

    WHIP wants it of both sides (RFC 9725, 4.4.1), where RFC 8858 (4.3) keeps it out of answers:
    for WHIP's clients alone, and only if they say it first.
    """
    description = Description.parse(answer)
    bundle = description.bundle
    asked = {s.mid for s in offer.original.sections if s.flag("rtcp-mux-only")}

    def mirrored(section: Section) -> Section:
        if section.mid not in asked or section.mid not in bundle or not section.flag("rtcp-mux"):
            return section
        at = section.lines.index("a=rtcp-mux") + 1
        return replace(section, lines=(*section.lines[:at], "a=rtcp-mux-only", *section.lines[at:]))

    return str(replace(description, sections=tuple(map(mirrored, description.sections))))


def rewrite_host_candidates(answer: str, private: set[str], public: str) -> str:
    """Announce `public` in place of this machine's own addresses (one-to-one NAT)."""

    def edit(line: str) -> str:
        if not line.startswith("a=candidate:"):
            return line
        words = line.split(" ")
        if len(words) > 7 and words[7] == "host" and words[4] in private:
            words[4] = public
        return " ".join(words)

    return "\r\n".join(edit(line) for line in answer.split("\r\n"))


def candidate_text(candidate: str | None) -> str | None:
    """A trickled candidate without its prefixes; None for any form of end-of-candidates."""
    if candidate is None:
        return None
    text = candidate.strip()
    for prefix in ("a=", "candidate:"):
        text = text.removeprefix(prefix)
    return None if text in ("", "end-of-candidates", "null") else text


def _attributes(lines: tuple[str, ...], name: str) -> list[str]:
    prefix = f"a={name}:"
    return [line[len(prefix) :].strip() for line in lines if line.startswith(prefix)]


def _choose_audio(description: Description, flow: Flow) -> int:
    """The first audio section that goes the ways that are wanted."""
    audio = [(i, s) for i, s in enumerate(description.sections) if s.kind == "audio"]
    if not audio:
        raise UnsupportedOffer(
            "The offer has no audio section: a call needs one that sends and receives."
        )
    live = [(i, s) for i, s in audio if not s.rejected]
    if not live:
        raise UnsupportedOffer("Every audio section of the offer is rejected (port 0).")
    fitting = [(i, s) for i, s in live if s.direction in flow.value]
    if not fitting:
        direction = live[0][1].direction
        why = {
            "recvonly": "the caller would send no audio, so that the agent could not hear",
            "sendonly": "the caller would receive no audio, so that it could not hear the agent",
            "inactive": "no audio would flow",
            "sendrecv": "it fits no offer taken here",
        }[direction]
        wanted = " or ".join(f"`{d}`" for d in flow.value)
        raise UnsupportedOffer(f"The offered audio is {direction}: {why}. Offer {wanted}.")
    for index, section in fitting:
        names = {name.split("/")[0].lower() for name in section.codec_names().values()}
        if any(codec.lower() in names for codec in AUDIO_CODECS):
            return index
    offered = sorted({n for _, s in fitting for n in s.codec_names().values()}) or ["none"]
    raise UnsupportedOffer(
        f"No common audio codec: offered {', '.join(offered)[:200]}; "
        f"this server speaks {', '.join(AUDIO_CODECS)}."
    )


def _with_transport(description: Description, section: Section) -> Section:
    """A bundled section with the transport lines that only the tagged section carries
    (RFC 9143, 7.1.3), and open to `bundle-only`."""
    bundle = description.bundle
    tagged = next((s for s in description.sections if bundle and s.mid == bundle[0]), None)
    if tagged is None or section.mid not in bundle or tagged is section:
        return section
    lines = list(section.lines)
    if section.port == 0:
        lines[0] = lines[0].replace(f"m={section.kind} 0 ", f"m={section.kind} 9 ", 1)
        lines = [line for line in lines if line != "a=bundle-only"]
    for name in _TRANSPORT_ATTRIBUTES:
        if not section.attributes(name):
            lines += [f"a={name}:{value}" for value in tagged.attributes(name)]
    known = set(section.attributes("candidate"))
    lines += [f"a=candidate:{c}" for c in tagged.attributes("candidate") if c not in known]
    return Section.parse(lines)


def _without_odd_candidates(section: Section) -> Section:
    """Without candidates whose port is none: sending to one fails deep inside the ICE library."""
    lines = tuple(
        line
        for line in section.lines
        if not line.startswith("a=candidate:") or has_port(line.removeprefix("a=candidate:"))
    )
    return replace(section, lines=lines)


def has_port(candidate: str) -> bool:
    """Whether a candidate's port can be sent to (RFC 8839, 5.1: the sixth word)."""
    words = candidate.split()
    return len(words) > 5 and words[5].isdecimal() and 0 < int(words[5][:6]) < 1 << 16


def _with_mid(section: Section, index: int) -> Section:
    return replace(section, lines=(*section.lines, f"a=mid:{index}"))


def _open_ended(section: Section) -> Section:
    """Without the end-of-candidates mark: a caller whose candidates are of no use here (none, or a
    `.local` name that does not resolve) may still reach us, and is then learned from its checks.
    """
    lines = tuple(line for line in section.lines if line != "a=end-of-candidates")
    return replace(section, lines=lines)


def _check_transport(description: Description, section: Section) -> None:
    if section.kind == "audio" and not section.flag("rtcp-mux"):
        raise UnsupportedOffer("The offered audio lacks `a=rtcp-mux`, which this server needs.")
    if not section.attributes("fingerprint") and not _attributes(
        description.session, "fingerprint"
    ):
        raise InvalidOffer(
            "The offer has no `a=fingerprint`: without it no encrypted connection can be made."
        )


def _refuse(section: Section, audio: Section, bundled: bool) -> Section:
    """The answer to a section that is not used."""
    usable = [fmt for fmt in section.formats if section.kind in ("audio", "video")]
    inactive = bundled and not section.rejected and section.kind in ("audio", "video")
    formats = usable[:1] or list(section.formats)
    lines = [f"m={section.kind} {9 if inactive else 0} {section.profile} {' '.join(formats)}"]
    lines.append("c=IN IP4 0.0.0.0")
    if section.mid is not None:
        lines.append(f"a=mid:{section.mid}")
    if section.kind in ("audio", "video"):
        lines.append("a=inactive")
        for name in ("rtpmap", "fmtp"):
            values = section.attributes(name)
            lines += [f"a={name}:{v}" for v in values if v.partition(" ")[0] in formats]
    if inactive:
        lines.append("a=rtcp-mux")
        for name in _TRANSPORT_ATTRIBUTES:
            lines += [f"a={name}:{value}" for value in audio.attributes(name)]
    return Section.parse(lines)
