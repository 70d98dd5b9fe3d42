"""The native text channel: JSON objects on the ordered, reliable data channel `text`.

From the agent's side every object has `type`, `seq` (counts up by one; a gap means that messages
were dropped), `frame` (80 ms frames since the call went live, never going back) and `t_ms` (the
same moment in milliseconds).
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rtc_agent.errors import InvalidRequest

LABEL = "text"
"""The data channel's label."""
MESSAGE_TYPES = ("ready", "text", "speech", "notice", "stats", "ended", "pong")
"""Types that the agent's side sends."""

Who = Literal["caller", "agent"]


def encode(type_: str, seq: int, frame: int, t_ms: int, fields: dict[str, Any]) -> str:
    """One message of the agent's side."""
    return json.dumps(
        {"type": type_, "seq": seq, "frame": frame, "t_ms": t_ms, **fields},
        ensure_ascii=False,
        separators=(",", ":"),
    )


class _ClientMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")


class Mute(_ClientMessage):
    """The caller muted or unmuted the microphone: what arrives is not heard meanwhile."""

    type: Literal["mute"]
    muted: bool


class Dtmf(_ClientMessage):
    """Keys of a telephone keypad, in order."""

    type: Literal["dtmf"]
    digits: Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[0-9A-Da-d*#]+$")]


class Ping(_ClientMessage):
    """Asks for a `pong` of the same id."""

    type: Literal["ping"]
    id: int | Annotated[str, Field(max_length=64)] = 0


class Hangup(_ClientMessage):
    """The caller is done."""

    type: Literal["hangup"]


ClientMessage = Mute | Dtmf | Ping | Hangup
_parser: TypeAdapter[ClientMessage] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="type")]
)


def decode(message: str) -> ClientMessage:
    """A message of the caller's side.

    Raises:
        InvalidRequest: it is none; the message says what was wrong and what there is.
    """
    try:
        return _parser.validate_json(message)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise InvalidRequest(
            f"Message not understood{f' ({where})' if where else ''}: {fault['msg']}. "
            'Expected a JSON object whose "type" is mute, dtmf, ping or hangup.'
        ) from error
