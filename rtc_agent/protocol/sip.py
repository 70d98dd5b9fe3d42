"""SIP (RFC 3261) as one calling telephone needs it: messages as text, and one dialog's requests."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

_TAG = re.compile(r";\s*tag=([^;>\s]+)")
_COMPACT = {
    "v": "via",
    "f": "from",
    "t": "to",
    "i": "call-id",
    "m": "contact",
    "l": "content-length",
    "c": "content-type",
}


@dataclass(frozen=True, slots=True)
class SipMessage:
    """One message: its first line, its headers in order, its body."""

    start: str
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""

    @classmethod
    def parse(cls, data: bytes) -> SipMessage | None:
        """None for what is no SIP message."""
        text = data.decode(errors="replace")
        head, _, body = text.partition("\r\n\r\n")
        start, *lines = head.split("\r\n")
        if "SIP/2.0" not in start:
            return None
        headers = []
        for line in lines:
            name, colon, value = line.partition(":")
            if colon:
                headers.append((_COMPACT.get(name.strip().lower(), name.strip()), value.strip()))
        return cls(start, tuple(headers), body)

    def __str__(self) -> str:
        lines = [self.start, *(f"{name}: {value}" for name, value in self.headers)]
        length = len(self.body.encode())
        return "\r\n".join([*lines, f"Content-Length: {length}", "", self.body])

    def header(self, name: str) -> str:
        """The first header of that name; empty if there is none."""
        return next((v for n, v in self.headers if n.lower() == name.lower()), "")

    def every(self, name: str) -> list[str]:
        return [v for n, v in self.headers if n.lower() == name.lower()]

    @property
    def status(self) -> int:
        """Of a response; 0 for a request."""
        words = self.start.split(" ")
        return int(words[1]) if words[0] == "SIP/2.0" and words[1].isdigit() else 0

    @property
    def reason(self) -> str:
        """A response's words."""
        return self.start.split(" ", 2)[-1] if self.status else ""

    @property
    def method(self) -> str:
        """A request's method, or that of the request which a response answers."""
        return self.header("CSeq").split(" ")[-1] if self.status else self.start.split(" ")[0]

    @property
    def branch(self) -> str:
        """What pairs a response with its request."""
        match = re.search(r"branch=([^;,\s]+)", self.header("Via"))
        return match[1] if match else ""


@dataclass(slots=True)
class Dialog:
    """One call from the calling side: makes its requests, and learns from its answers."""

    target: str
    """Address that is called."""
    local: str
    """Own address, `sip:name@host:port`."""
    call_id: str = field(default_factory=lambda: f"{secrets.token_hex(12)}")
    sequence: int = 0
    _tag: str = field(default_factory=lambda: secrets.token_hex(6))
    _remote_tag: str = ""
    _route: Sequence[str] = ()
    _request_uri: str = ""
    _invite: SipMessage | None = None

    def invite(self, body: str) -> SipMessage:
        """The request that begins the call."""
        self._invite = self.request("INVITE", body)
        return self._invite

    def request(self, method: str, body: str = "", kind: str = "application/sdp") -> SipMessage:
        """A request within the dialog, or the one that makes it."""
        if method != "ACK":
            self.sequence += 1
        return self._message(method, f"z9hG4bK{secrets.token_hex(8)}", body, kind)

    def acknowledge(self, response: SipMessage) -> SipMessage:
        """The ACK for a final response to the INVITE."""
        if response.status < 300:
            return self.request("ACK")
        assert self._invite is not None
        tag = _TAG.search(response.header("To"))
        to = f"<{self.target}>" + (f";tag={tag[1]}" if tag else "")
        return self._message("ACK", self._invite.branch, to=to)

    def cancel(self) -> SipMessage:
        """Give up a call that still rings."""
        assert self._invite is not None
        return self._message("CANCEL", self._invite.branch)

    def establish(self, response: SipMessage) -> None:
        """Take over what the 200 to the INVITE says of the way to the other side."""
        tag = _TAG.search(response.header("To"))
        self._remote_tag = tag[1] if tag else ""
        self._route = response.every("Record-Route")[::-1]
        contact = re.search(r"<([^>]+)>", response.header("Contact"))
        if contact is not None:
            self._request_uri = contact[1]

    def answer(self, request: SipMessage, status: int, reason: str, body: str = "") -> SipMessage:
        """A response to the other side's request."""
        copied = [(n, v) for n, v in request.headers if n.lower() in _COPIED]
        headers = [*copied, ("Contact", f"<{self.local}>")]
        if body:
            headers.append(("Content-Type", "application/sdp"))
        return SipMessage(f"SIP/2.0 {status} {reason}", tuple(headers), body)

    def _message(
        self,
        method: str,
        branch: str,
        body: str = "",
        kind: str = "application/sdp",
        to: str = "",
    ) -> SipMessage:
        if not to:
            to = f"<{self.target}>" + (f";tag={self._remote_tag}" if self._remote_tag else "")
        host = self.local.partition("@")[2]
        headers = [
            ("Via", f"SIP/2.0/UDP {host};branch={branch};rport"),
            ("Max-Forwards", "70"),
            *(("Route", route) for route in self._route),
            ("From", f"<{self.local}>;tag={self._tag}"),
            ("To", to),
            ("Call-ID", self.call_id),
            ("CSeq", f"{self.sequence} {method}"),
            ("Contact", f"<{self.local}>"),
            ("Allow", "INVITE, ACK, BYE, CANCEL, OPTIONS, UPDATE, INFO"),
        ]
        if body:
            headers.append(("Content-Type", kind))
        uri = self._request_uri or self.target
        return SipMessage(f"{method} {uri} SIP/2.0", tuple(headers), body)


_COPIED = ("via", "from", "to", "call-id", "cseq")


def audio_offer(address: str, port: int, payload_type: int, codec: str, version: int = 1) -> str:
    """A telephone's description: one codec (`name/rate[/channels]`) both ways, 20 ms packets."""
    lines = [
        "v=0",
        f"o=- 1 {version} IN IP4 {address}",
        "s=-",
        f"c=IN IP4 {address}",
        "t=0 0",
        f"m=audio {port} RTP/AVP {payload_type} 101",
        f"a=rtpmap:{payload_type} {codec}",
        "a=rtpmap:101 telephone-event/8000",
        "a=fmtp:101 0-15",
        "a=ptime:20",
        "a=sendrecv",
    ]
    return "\r\n".join(lines) + "\r\n"


def media_address(sdp: str) -> tuple[str, int] | None:
    """Where a description wants its audio; None if it wants none."""
    media = re.search(r"^m=audio (\d+) ", sdp, re.M)
    addresses = re.findall(r"^c=IN IP4 ([\d.]+)", sdp, re.M)
    if media is None or not addresses or int(media[1]) == 0:
        return None
    return addresses[-1], int(media[1])
