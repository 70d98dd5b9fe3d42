"""The Janus gateway's session protocol: requests as dictionaries, answers and events as types.

Source: the gateway's own documentation of its JSON API. What a plugin puts into an event is left
as it comes; `rtc_agent.protocol.janus_sip` reads the SIP plugin's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SUBPROTOCOL = "janus-protocol"
"""WebSocket sub-protocol of the gateway's client API."""

NO_SUCH_SESSION = 458
"""Error code: the gateway does not know the session, any more or at all."""


@dataclass(frozen=True, slots=True)
class Jsep:
    """A session description that travels with a request or an event."""

    type: Literal["offer", "answer"]
    sdp: str
    update: bool = False
    """It changes a connection that is already there."""

    def as_json(self) -> dict[str, Any]:
        """For a request: every candidate is in the text, none follows."""
        return {"type": self.type, "sdp": self.sdp, "trickle": False}


@dataclass(frozen=True, slots=True)
class Message:
    """Something the gateway sent."""

    transaction: str | None = None
    """That of the request it belongs to; None for what nobody asked for."""
    session_id: int | None = None
    handle_id: int | None = None


@dataclass(frozen=True, slots=True)
class Ack(Message):
    """The request was taken; what comes of it follows as an event."""


@dataclass(frozen=True, slots=True)
class Success(Message):
    """The request is done."""

    id: int | None = None
    """The new session's or handle's, where one was made."""


@dataclass(frozen=True, slots=True)
class Failure(Message):
    """The request was refused."""

    code: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PluginEvent(Message):
    """What a plugin tells one handle."""

    plugin: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    jsep: Jsep | None = None


@dataclass(frozen=True, slots=True)
class WebRtcUp(Message):
    """The handle's peer connection is established."""


@dataclass(frozen=True, slots=True)
class HungUp(Message):
    """The handle's peer connection is gone."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Media(Message):
    """The gateway began or ceased to receive our media."""

    kind: str = ""
    receiving: bool = False


@dataclass(frozen=True, slots=True)
class SlowLink(Message):
    """The gateway counts lost packets."""

    uplink: bool = False
    """Ours to it, seen from the gateway."""
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Trickle(Message):
    """A candidate of the gateway's; None when there are no more."""

    candidate: str | None = None
    sdp_mid: str | None = None
    sdp_mline_index: int | None = None


@dataclass(frozen=True, slots=True)
class Detached(Message):
    """The gateway gave the handle up."""


@dataclass(frozen=True, slots=True)
class TimedOut(Message):
    """The gateway gave the session up, or somebody else claimed it."""


@dataclass(frozen=True, slots=True)
class Unknown(Message):
    """A message of a kind that this client does not know."""

    kind: str = ""


def request(
    kind: str,
    transaction: str,
    *,
    session_id: int | None = None,
    handle_id: int | None = None,
    secret: str | None = None,
    token: str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A request of that kind (`create`, `attach`, `claim`, `keepalive`, `message`, `detach`,
    `destroy`, …); a field of value None is left out.

    Args:
        secret: the gateway's `api_secret`, if it has one.
        token: this client's, where the gateway uses token-based authentication.
    """
    every: dict[str, Any] = {
        "session_id": session_id,
        "handle_id": handle_id,
        "apisecret": secret,
        "token": token,
        **fields,
    }
    given = {name: value for name, value in every.items() if value is not None}
    return {"janus": kind, "transaction": transaction, **given}


def parse(text: str) -> Message:
    """What the gateway sent.

    Raises:
        ValueError: it is no JSON object, or its fields have other types than they should.
    """
    message = json.loads(text)
    if not isinstance(message, dict):
        raise ValueError("a gateway message is a JSON object")
    kind = _text(message, "janus")
    base: dict[str, Any] = {
        "transaction": _text(message, "transaction") or None,
        "session_id": _number(message, "session_id"),
        "handle_id": _number(message, "sender"),
    }
    match kind:
        case "ack":
            return Ack(**base)
        case "success":
            return Success(**base, id=_number(_table(message, "data"), "id"))
        case "error":
            error = _table(message, "error")
            return Failure(**base, code=_number(error, "code") or 0, reason=_text(error, "reason"))
        case "event":
            plugin = _table(message, "plugindata")
            return PluginEvent(
                **base,
                plugin=_text(plugin, "plugin"),
                data=_table(plugin, "data"),
                jsep=_jsep(message),
            )
        case "webrtcup":
            return WebRtcUp(**base)
        case "hangup":
            return HungUp(**base, reason=_text(message, "reason"))
        case "media":
            return Media(
                **base, kind=_text(message, "type"), receiving=message.get("receiving") is True
            )
        case "slowlink":
            return SlowLink(
                **base,
                uplink=message.get("uplink") is True,
                lost=_number(message, "lost") or 0,
            )
        case "trickle":
            candidate = _table(message, "candidate")
            return Trickle(
                **base,
                candidate=_text(candidate, "candidate") or None,
                sdp_mid=_text(candidate, "sdpMid") or None,
                sdp_mline_index=_number(candidate, "sdpMLineIndex"),
            )
        case "detached":
            return Detached(**base)
        case "timeout":
            return TimedOut(**base)
        case _:
            return Unknown(**base, kind=kind)


def _jsep(message: Mapping[str, Any]) -> Jsep | None:
    jsep = _table(message, "jsep")
    if not jsep:
        return None
    type_ = _text(jsep, "type")
    if type_ not in ("offer", "answer"):
        raise ValueError(f"a session description of type {type_!r}")
    return Jsep(
        "offer" if type_ == "offer" else "answer",
        _text(jsep, "sdp"),
        update=jsep.get("update") is True,
    )


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def _number(table: Mapping[str, Any], name: str) -> int | None:
    value = table.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{name} is no whole number")


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = table.get(name, {})
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no object")
    return value
