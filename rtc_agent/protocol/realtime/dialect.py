"""The channel `oai-events` of one call: call events out, client events in."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rtc_agent.errors import InvalidRequest
from rtc_agent.protocol import events
from rtc_agent.protocol.bursts import Bursts
from rtc_agent.protocol.events import CallEvent, Received
from rtc_agent.protocol.realtime.items import Item, Items
from rtc_agent.protocol.realtime.names import BETA_NAMES, UNKNOWN_TO_BETA
from rtc_agent.protocol.realtime.responses import Responses, ServerEvent
from rtc_agent.protocol.realtime.session import Session, read_wishes

LABEL = "oai-events"
"""The data channel's label; the client makes it."""

_UNSUPPORTED = {
    "response.create": "The agent speaks when it sees fit; a response cannot be asked for.",
    "conversation.item.create": "This agent is spoken to; it takes no typed or prepared items.",
    "conversation.item.delete": "What was said cannot be taken out of the agent's memory.",
    "conversation.item.truncate": "What was said cannot be taken out of the agent's memory.",
    "input_audio_buffer.append": "Over WebRTC audio comes on the media track.",
    "input_audio_buffer.commit": "The agent listens all the time; there is nothing to commit.",
    "input_audio_buffer.clear": "The agent has already heard what arrived.",
}
_FAULTS = {"call_limit": "session_expired", "idle": "session_expired"}
_QUIET_ENDINGS = ("hangup", "peer_closed", "connection_failed", "peer_vanished")
_NOTICES = {
    "overload": "server_error",
    "unknown_voice": "invalid_request_error",
    "invalid_persona": "invalid_request_error",
    "too_late": "invalid_request_error",
}
"""Notices that a client of this protocol is told, and the kind of error they are."""

Reply = Iterator[ServerEvent]


class RealtimeDialect:
    """The Realtime protocol on one channel. The first event is always `session.created`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._prefix = session.id.removeprefix("sess_")
        self._items = Items(self._prefix, session.beta)
        self._responses = Responses(session, self._items, self._prefix)
        self._bursts = Bursts()
        self._sent = 0
        self._created = False
        self._hearing: Item | None = None
        """The item of the caller's speech in progress."""
        self._accepts: dict[str, Callable[[Mapping[str, Any], int], tuple[Reply, _Commands]]] = {
            "session.update": self._update,
            "response.cancel": self._cancel,
            "output_audio_buffer.clear": self._clear,
            "conversation.item.retrieve": self._retrieve,
        }

    def encode(self, event: CallEvent) -> Sequence[str]:
        if isinstance(event, events.Ready):
            self._session.voice = event.voice
        return self._messages(self._tell(event))

    def reopen(self) -> Sequence[str]:
        return ()

    def decode(self, message: str, frame: int) -> Received:
        try:
            body = json.loads(message)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict) or not isinstance(body.get("type"), str):
            text = "An event is a JSON object with a string `type`."
            reply: Reply = iter([_error("invalid_json", text, None)])
            commands: _Commands = ()
        else:
            reply, commands = self._answer(body, frame)
        return Received(
            commands=commands, replies=self._messages(itertools.chain(self._create(), reply))
        )

    def _tell(self, event: CallEvent) -> Reply:
        if not isinstance(event, events.Ended):
            yield from self._create()
        for step in self._bursts.push(event):
            yield from self._responses.follow(step)
        match event:
            case events.Speech(who="caller", speaking=True):
                yield from self._hear(event)
            case events.Speech(who="caller", speaking=False):
                yield from self._heard(event)
            case events.Notice(code=code, message=message) if code in _NOTICES:
                yield _error(code, message, None, kind=_NOTICES[code])
            case events.Ended(reason=reason, message=message):
                yield from self._responses.finish("completed")
                if reason not in _QUIET_ENDINGS:
                    code = _FAULTS.get(reason, reason)
                    yield _error(code, message, None, kind="server_error")

    def _create(self) -> Reply:
        if not self._created:
            self._created = True
            yield "session.created", {"session": self._session.describe()}

    def _hear(self, event: events.Speech) -> Reply:
        self._hearing = self._items.add("user")
        where = {"audio_start_ms": event.t_ms, "item_id": self._hearing.id}
        yield "input_audio_buffer.speech_started", where

    def _heard(self, event: events.Speech) -> Reply:
        if self._hearing is None:
            return
        item, self._hearing = self._hearing, None
        item.status = "completed"
        where = {"audio_end_ms": event.t_ms, "item_id": item.id}
        yield "input_audio_buffer.speech_stopped", where
        added = {"previous_item_id": item.previous, "item_id": item.id}
        yield "input_audio_buffer.committed", added
        described = {"previous_item_id": item.previous, "item": item.describe()}
        yield "conversation.item.added", described
        yield "conversation.item.done", described

    def _answer(self, body: Mapping[str, Any], frame: int) -> tuple[Reply, _Commands]:
        type_ = body["type"]
        if (accept := self._accepts.get(type_)) is not None:
            return accept(body, frame)
        if type_ in _UNSUPPORTED:
            problem = _error("unsupported", _UNSUPPORTED[type_], body, param="type")
        else:
            known = ", ".join(sorted([*self._accepts, *_UNSUPPORTED]))
            text = f"Invalid value: {type_[:64]!r}. Known values are: {known}."
            problem = _error("invalid_value", text, body, param="type")
        return iter([problem]), ()

    def _update(self, body: Mapping[str, Any], frame: int) -> tuple[Reply, _Commands]:
        """Always answered with `session.updated`, whatever could not be changed."""
        problems: list[ServerEvent] = []
        commands: list[events.Command] = []
        try:
            wishes = read_wishes(body.get("session"))
        except InvalidRequest as error:
            problems.append(_error("invalid_value", error.message, body, param="session"))
        else:
            for name in wishes.unsupported:
                text = f"`{name}` cannot be had: the agent calls no tools and always speaks."
                problems.append(_error("unsupported", text, body, param=name))
            session = self._session
            persona = _changed(wishes.instructions, session.instructions)
            voice = _changed(wishes.voice, session.voice)
            if persona is not None or voice is not None:
                if frame <= events.CONFIGURE_FRAMES:
                    commands.append(events.Configure(voice=voice, persona=persona))
                    session.instructions = persona if persona is not None else session.instructions
                    session.voice = voice or session.voice
                else:
                    text = (
                        "`instructions` and `voice` are fixed once the conversation is under way."
                    )
                    problems.append(_error("session_under_way", text, body, param="session"))
        return self._updated(problems), commands

    def _updated(self, problems: Iterable[ServerEvent]) -> Reply:
        yield from problems
        yield "session.updated", {"session": self._session.describe()}

    def _cancel(self, body: Mapping[str, Any], frame: int) -> tuple[Reply, _Commands]:
        if self._responses.active is None:
            text = "Cancellation failed: no active response found"
            return iter([_error("response_cancel_not_active", text, body)]), ()
        return self._responses.finish("cancelled"), [events.FlushPlayout()]

    def _clear(self, body: Mapping[str, Any], frame: int) -> tuple[Reply, _Commands]:
        cleared = {"response_id": self._responses.active}
        return iter([("output_audio_buffer.cleared", cleared)]), [events.FlushPlayout()]

    def _retrieve(self, body: Mapping[str, Any], frame: int) -> tuple[Reply, _Commands]:
        item = self._items.get(body.get("item_id"))
        if item is None:
            text = "There is no item of that id in this conversation."
            return iter([_error("item_not_found", text, body, param="item_id")]), ()
        return iter([("conversation.item.retrieved", {"item": item.describe()})]), ()

    def _messages(self, told: Iterable[ServerEvent]) -> list[str]:
        messages = []
        for name, fields in told:
            if self._session.beta:
                if name in UNKNOWN_TO_BETA:
                    continue
                name = BETA_NAMES.get(name, name)
            self._sent += 1
            head = {"type": name, "event_id": f"event_{self._prefix}_{self._sent}"}
            messages.append(json.dumps(head | fields, ensure_ascii=False, separators=(",", ":")))
        return messages


_Commands = Sequence[events.Command]


def _changed(wish: str | None, current: str | None) -> str | None:
    """The wish, if it differs from what there is; empty and absent instructions are the same."""
    return wish if wish is not None and wish != (current or "") else None


def _error(
    code: str,
    message: str,
    cause: Mapping[str, Any] | None,
    *,
    kind: str = "invalid_request_error",
    param: str | None = None,
) -> ServerEvent:
    """An `error` event; `cause` is the client event that it answers."""
    event_id = cause.get("event_id") if cause is not None else None
    return "error", {
        "error": {
            "type": kind,
            "code": code,
            "message": message,
            "param": param,
            "event_id": event_id if isinstance(event_id, str) else None,
        }
    }
