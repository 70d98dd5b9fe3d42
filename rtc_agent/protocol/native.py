"""The native text channel: JSON objects on the ordered, reliable data channel `text`.

From the agent's side every object has `type`, `seq` (counts up by one; a gap means that messages
were dropped), `frame` (80 ms frames since the call went live, never going back) and `t_ms` (the
same moment in milliseconds).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from rtc_agent.protocol import events
from rtc_agent.protocol.events import CallEvent, Received

LABEL = "text"
"""The data channel's label."""


class MuteMessage(BaseModel):
    """The caller muted or unmuted the microphone: what arrives is not heard meanwhile."""

    type: Literal["mute"]
    muted: bool


class DtmfMessage(BaseModel):
    """Keys of a telephone keypad, in order."""

    type: Literal["dtmf"]
    digits: Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[0-9A-Da-d*#]+$")]


class PingMessage(BaseModel):
    """Asks for a `pong` of the same id."""

    type: Literal["ping"]
    id: int | Annotated[str, Field(max_length=64)] = 0


class HangupMessage(BaseModel):
    """The caller is done."""

    type: Literal["hangup"]


ClientMessage = MuteMessage | DtmfMessage | PingMessage | HangupMessage
_parser: TypeAdapter[ClientMessage] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="type")]
)


class NativeDialect:
    """The native protocol on one channel."""

    def __init__(self) -> None:
        self._seq = 0

    def encode(self, event: CallEvent) -> Sequence[str]:
        if isinstance(event, events.Levels):
            return []
        type_, fields = _describe(event)
        return [self._message(type_, event.frame, fields)]

    def reopen(self) -> Sequence[str]:
        return ()

    def decode(self, message: str, frame: int) -> Received:
        try:
            received = _parser.validate_json(message)
        except ValidationError as error:
            fields = {"code": "unknown_message", "message": _explain(error)}
            return Received(replies=[self._message("notice", frame, fields)])
        match received:
            case PingMessage(id=ping_id):
                return Received(replies=[self._message("pong", frame, {"id": ping_id})])
            case MuteMessage(muted=muted):
                return Received(commands=[events.SetMuted(muted)])
            case DtmfMessage(digits=digits):
                return Received(commands=[events.Dtmf(digits)])
            case HangupMessage():
                return Received(commands=[events.Hangup()])

    def _message(self, type_: str, frame: int, fields: dict[str, Any]) -> str:
        head = {"type": type_, "seq": self._seq, "frame": frame, "t_ms": frame * events.FRAME_MS}
        self._seq += 1
        return json.dumps(head | fields, ensure_ascii=False, separators=(",", ":"))


def _describe(event: CallEvent) -> tuple[str, dict[str, Any]]:
    match event:
        case events.Ready(call_id=call_id, agent=agent, description=description, voice=voice):
            about = {"agent": agent, "description": description, "voice": voice}
            return "ready", {"call_id": call_id} | about
        case events.Text(delta=delta):
            return "text", {"delta": delta}
        case events.Speech(who=who, speaking=speaking, duration_ms=duration_ms):
            state = "started" if speaking else "stopped"
            return "speech", {"who": who, "state": state, "duration_ms": duration_ms}
        case events.Notice(code=code, message=message, fields=fields):
            return "notice", {"code": code, "message": message, **fields}
        case events.Stats(figures=figures):
            return "stats", dict(figures)
        case events.Ended(reason=reason, message=message):
            return "ended", {"reason": reason, "message": message}
    raise TypeError(f"no message for {type(event).__name__}")


def _explain(error: ValidationError) -> str:
    fault = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    return (
        f"Message not understood{f' ({where})' if where else ''}: {fault['msg']}. "
        'Expected a JSON object whose "type" is mute, dtmf, ping or hangup.'
    )
