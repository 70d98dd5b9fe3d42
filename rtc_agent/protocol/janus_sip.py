"""The Janus SIP plugin: what its events say and what its requests look like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PLUGIN = "janus.plugin.sip"
"""The plugin's name when a handle is attached."""

DTMF_DIGITS = "0123456789*#ABCD"

_INFO_SIGNAL = re.compile(r"^\s*Signal\s*=\s*(\S+)", re.IGNORECASE | re.MULTILINE)
_INFO_DURATION = re.compile(r"^\s*Duration\s*=\s*(\d{1,5})", re.IGNORECASE | re.MULTILINE)
_URI = re.compile(
    r"sips?:"
    r"(?:(?P<user>[A-Za-z0-9\-_.!~*'()&=+$,;?/%#]{1,128})@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.\-]{1,253})"
    r"(?::(?P<port>\d{1,5}))?"
    r"(?:;[A-Za-z0-9\-_.!~*'()%+=:\[\];]{0,200})?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SipEvent:
    """One event of the plugin, whatever it is about."""

    name: str
    """`registered`, `incomingcall`, `accepted`, `hangup`, …; `error` for a refused request."""
    call_id: str | None = None
    """SIP Call-ID that it belongs to."""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A field as text; empty where it is absent or no text."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        """A field as a whole number, if it is one."""
        value = self.fields.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class SipUri:
    """The parts of a SIP URI that a dial plan looks at."""

    user: str
    host: str


@dataclass(frozen=True, slots=True)
class DtmfPress:
    """One key, as SIP INFO tells it."""

    digit: str
    duration_ms: int


def read(data: Mapping[str, Any]) -> SipEvent:
    """The SIP event in a plugin's data. Never raises: what is not understood has an empty name."""
    call_id = data.get("call_id")
    result = data.get("result")
    table = result if isinstance(result, dict) else {}
    if not isinstance(call_id, str):
        call_id = table.get("call_id") if isinstance(table.get("call_id"), str) else None
    if "error_code" in data or "error" in data:
        return SipEvent("error", call_id, {"code": data.get("error_code"), **data})
    name = table.get("event")
    return SipEvent(name if isinstance(name, str) else "", call_id, table)


def parse_uri(text: str) -> SipUri | None:
    """A SIP or SIPS URI, bare or in angle brackets; None for anything else.

    Only characters of RFC 3261's grammar are let through, so that the text can go into a header.
    """
    stripped = text.strip()
    if stripped.startswith("<") and stripped.endswith(">"):
        stripped = stripped[1:-1]
    match = _URI.fullmatch(stripped)
    if match is None or int(match["port"] or 5060) > 65535:
        return None
    return SipUri((match["user"] or "").split(";")[0], match["host"])


def parse_info(content_type: str, content: str) -> DtmfPress | None:
    """The key in a SIP INFO body (`application/dtmf-relay`, `application/dtmf`), if it has one."""
    kind = content_type.split(";")[0].strip().lower()
    if kind == "application/dtmf-relay":
        signal = _INFO_SIGNAL.search(content)
        duration = _INFO_DURATION.search(content)
        digit = signal[1] if signal else ""
        return _press(digit, int(duration[1]) if duration else 0)
    if kind == "application/dtmf":
        return _press(content.strip(), 0)
    return None


def sipfrag_status(content_type: str, content: str) -> int | None:
    """The status code in a `message/sipfrag` body (RFC 3420), which tells how a transfer goes."""
    if not content_type.lower().startswith("message/sipfrag"):
        return None
    match = re.match(r"\s*SIP/2\.0 (\d{3})\b", content)
    return int(match[1]) if match else None


def _press(signal: str, duration_ms: int) -> DtmfPress | None:
    # Some devices give the event code of RFC 4733 instead of the key.
    names = {"10": "*", "11": "#"}
    digit = names.get(signal, signal).upper()
    if len(digit) != 1 or digit not in DTMF_DIGITS:
        return None
    return DtmfPress(digit, duration_ms)
