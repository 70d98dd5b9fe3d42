"""WHIP and WHEP (RFC 9725) beyond the offer and answer: fragments, entity tags, links.

Trickled candidates come as SDP fragments (RFC 8840); a change of the ICE credentials in one asks
for an ICE restart, which is answered with a fragment of this side's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rtc_agent.errors import InvalidRequest, PreconditionFailed, PreconditionRequired

SDP = "application/sdp"
FRAGMENT = "application/trickle-ice-sdpfrag"
MAX_FRAGMENT_BYTES = 64 * 1024

_TAG = re.compile(r'(?:^|,)\s*("[^"]*"|\*)\s*(?=,|$)')
"""Strong tags only: weak ones never match (RFC 9110, 13.1.1)."""
_UFRAG = re.compile(r"[A-Za-z0-9+/]{4,256}")
_PASSWORD = re.compile(r"[A-Za-z0-9+/]{22,256}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate and the media section it belongs to."""

    text: str
    """Without the `candidate:` prefix."""
    mid: str | None


@dataclass(frozen=True, slots=True)
class Fragment:
    """What a `PATCH` carries."""

    ufrag: str | None
    password: str | None
    candidates: tuple[Candidate, ...]
    ended: bool
    """No more candidates follow."""


def parse_fragment(text: str) -> Fragment:
    """Read a fragment; credentials may stand before or inside a media section.

    Raises:
        InvalidRequest: too long, or a line that cannot be part of a fragment.
    """
    if len(text.encode(errors="replace")) > MAX_FRAGMENT_BYTES:
        raise InvalidRequest(f"The fragment is longer than {MAX_FRAGMENT_BYTES // 1024} KiB.")
    found: dict[str, str] = {}
    sections: list[tuple[str | None, list[str]]] = [(None, [])]
    ended = False
    for line in (raw.strip() for raw in text.splitlines()):
        if not line:
            continue
        if not re.match(r"[a-z]=", line):
            raise InvalidRequest(f"The fragment has a line that is no SDP: {line[:40]!r}.")
        name, _, value = line[2:].partition(":")
        if line.startswith("m="):
            sections.append((None, []))
        elif not line.startswith("a="):
            continue
        elif name == "mid":
            sections[-1] = (value.strip(), sections[-1][1])
        elif name in ("ice-ufrag", "ice-pwd"):
            found.setdefault(name, value.strip())
        elif name == "candidate" and value.strip():
            sections[-1][1].append(value.strip())
        elif name == "end-of-candidates":
            ended = True
    candidates = tuple(Candidate(c, mid) for mid, section in sections for c in section)
    return Fragment(found.get("ice-ufrag"), found.get("ice-pwd"), candidates, ended)


def restart_credentials(fragment: Fragment) -> tuple[str, str]:
    """The peer's new user fragment and password.

    Raises:
        InvalidRequest: they are not both there, or not as RFC 8839 (5.4) has them.
    """
    ufrag, password = fragment.ufrag or "", fragment.password or ""
    if not _UFRAG.fullmatch(ufrag) or not _PASSWORD.fullmatch(password):
        raise InvalidRequest("An ICE restart needs `a=ice-ufrag` and `a=ice-pwd`, both new.")
    return ufrag, password


def write_fragment(mid: str, ufrag: str, password: str, candidates: Sequence[str]) -> str:
    """This side's new ICE session, whole: answers an ICE restart (RFC 9725, 4.3.3).

    Args:
        mid: of the media section whose transport every other one shares.
        candidates: without the `candidate:` prefix.
    """
    lines = [
        "a=ice-options:trickle ice2",
        f"a=group:BUNDLE {mid}",
        "m=audio 9 UDP/TLS/RTP/SAVPF 0",
        f"a=mid:{mid}",
        f"a=ice-ufrag:{ufrag}",
        f"a=ice-pwd:{password}",
        *(f"a=candidate:{candidate}" for candidate in candidates),
        "a=end-of-candidates",
    ]
    return "\r\n".join(lines) + "\r\n"


def offered_ufrag(offer: str) -> str | None:
    """The ICE user fragment of an offer; BUNDLE leaves one for the whole."""
    match = re.search(r"^a=ice-ufrag:(\S+)\s*$", offer, re.MULTILINE)
    return None if match is None else match.group(1)


def is_restart(fragment: Fragment, ufrag: str | None) -> bool:
    """Whether the fragment has other ICE credentials than the session was made with."""
    return fragment.ufrag is not None and ufrag is not None and fragment.ufrag != ufrag


def check_match(if_match: str | None, etag: str) -> None:
    """Conditional trickling (RFC 9725, 4.3.1): a candidate belongs to one ICE session.

    Args:
        if_match: the request's `If-Match`, None if there was none.
        etag: the session's entity tag, with its quotation marks.

    Raises:
        PreconditionRequired, PreconditionFailed: with the statuses 428 and 412.
    """
    if if_match is None:
        raise PreconditionRequired("Candidates need `If-Match` with the session's entity tag.")
    tags = [match.group(1) for match in _TAG.finditer(if_match)]
    if etag not in tags and "*" not in tags:
        raise PreconditionFailed("These candidates belong to another ICE session than this one.")


def ice_server_links(servers: Sequence[tuple[str, str | None, str | None]]) -> list[str]:
    """`Link` header values for ICE servers (RFC 9725, 4.4).

    Args:
        servers: (URL, user name, credential) of each.
    """
    links = []
    for url, username, credential in servers:
        link = f'<{url}>; rel="ice-server"'
        if username is not None and credential is not None:
            link += f"; username={_quoted(username)}; credential={_quoted(credential)}"
            link += '; credential-type="password"'
        links.append(link)
    return links


def _quoted(text: str) -> str:
    """A quoted string of RFC 9110; control characters cannot be in a header and are dropped."""
    text = re.sub(r"[\x00-\x1f\x7f]", "", text)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
