"""RTVI 2.1 and 1.x on the data channel `chat`, with SmallWebRTC's control messages beside it.

Every RTVI message is a JSON object with `label` "rtvi-ai", `type`, and where there is something to
say `data`; only an answer carries an `id`, that of the message it answers. The client's `ping:`
lines keep the channel busy and want no answer. Nothing is told before `client-ready`: only then is
it known which version the client reads.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from rtc_agent import __version__
from rtc_agent.protocol import events
from rtc_agent.protocol.bursts import Bursts, BurstStep, Step
from rtc_agent.protocol.events import CallEvent, Command, Received
from rtc_agent.protocol.sentences import Sentences

LABEL = "chat"
"""The data channel's label."""
MESSAGE_LABEL = "rtvi-ai"
PROTOCOL_VERSION = "2.1.0"
EARLY_EVENTS = 256
"""Events kept for a client that has not said it is ready."""
AUDIO_TRACK = 0
"""`receiver_index` of the microphone in a `trackStatus`."""


class Envelope(BaseModel):
    """Any message of the client."""

    type: str
    label: str | None = None
    id: str | None = None
    data: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    """Of `signalling`, which is SmallWebRTC's own and has no label."""


class TrackStatus(BaseModel):
    """The client muted or unmuted one of its tracks."""

    type: Literal["trackStatus"]
    receiver_index: int
    enabled: bool


class ClientMessage(BaseModel):
    """An application's own message: a name and whatever goes with it."""

    t: str
    d: Any = None


class LevelsWish(BaseModel):
    """Of the client message `audio-levels`."""

    enabled: bool = True


class Keys(BaseModel):
    """Of `dtmf`: several keys since 2.1, one before."""

    buttons: Annotated[list[Annotated[str, Field(pattern=r"^[0-9*#]$")]], Field(max_length=32)] = []
    button: Annotated[str, Field(pattern=r"^[0-9*#]$")] | None = None


_UNSUPPORTED = {
    "send-text": "This agent is spoken to; it takes no typed text.",
    "append-to-context": "What the agent knows cannot be changed during a call.",
    "raw-audio": "Audio comes over the media track, not over messages.",
    "raw-audio-batch": "Audio comes over the media track, not over messages.",
    "llm-function-call-result": "This agent calls no functions.",
}
_IGNORED = ("ui-event", "ui-snapshot", "ui-cancel-job-group")
"""Told without being asked, by clients that describe their screen; no answer is waited for."""

_FAULTS = ("agent_failed", "server_stopping", "call_limit", "idle", "refused")


class RtviDialect:
    """RTVI on one channel."""

    def __init__(self) -> None:
        self._version = PROTOCOL_VERSION
        self._hello: str | None = None
        """Id of a `client-ready` that waits for the agent."""
        self._greeted = False
        self._ready: events.Ready | None = None
        self._early: collections.deque[CallEvent] = collections.deque(maxlen=EARLY_EVENTS)
        self._bursts = Bursts()
        self._sentences = Sentences()
        self._unspoken: list[str] = []
        """Whole sentences of a burst that is not audible yet."""
        self._segment = 0
        self._caller_stopped: int | None = None
        self._wants_levels = False

    def encode(self, event: CallEvent) -> Sequence[str]:
        if isinstance(event, events.Ready):
            self._ready = event
            return list(self._greet())
        if isinstance(event, events.Ended):
            return list(self._farewell(event))
        if not self._greeted:
            if not isinstance(event, events.Levels):
                self._early.append(event)
            return []
        return list(self._tell(event))

    def reopen(self) -> Sequence[str]:
        return ()

    def decode(self, message: str, frame: int) -> Received:
        if message.startswith("ping"):
            return Received()
        try:
            envelope = Envelope.model_validate_json(message)
        except ValidationError:
            return self._fault("A message is a JSON object with `label`, `type` and `data`.")
        if envelope.type == "signalling":
            return _signalling(envelope)
        if envelope.label != MESSAGE_LABEL:
            return self._fault(f'A message without `label` "{MESSAGE_LABEL}" is not read.')
        return self._obey(envelope)

    def _obey(self, envelope: Envelope) -> Received:
        commands: list[Command] = []
        replies: list[str] = []
        match envelope.type:
            case "client-ready":
                replies.extend(self._meet(envelope))
            case "disconnect-bot":
                commands.append(events.Hangup())
            case "dtmf":
                return self._dtmf(envelope)
            case "client-message":
                replies.append(self._serve(envelope))
            case type_ if type_ in _UNSUPPORTED:
                replies.append(_refusal(envelope, _UNSUPPORTED[type_]))
            case type_ if type_ not in _IGNORED:
                replies.append(_refusal(envelope, f"Unsupported type {type_[:64]}"))
        return Received(commands=commands, replies=replies)

    def _meet(self, envelope: Envelope) -> Iterator[str]:
        """`client-ready`: whatever its version, the client is answered."""
        version = (envelope.data or {}).get("version")
        major = version.split(".")[0] if isinstance(version, str) else ""
        if not major.isascii() or not major.isdigit():
            yield _refusal(
                envelope, f"client-ready has no usable version; {PROTOCOL_VERSION} is spoken."
            )
        elif int(major) == 1:
            self._version = str(version)[:16]
        self._hello = envelope.id or ""
        yield from self._greet()

    def _greet(self) -> Iterator[str]:
        """`bot-ready`, once the client and the agent both are; then what happened meanwhile."""
        if self._hello is None or self._ready is None:
            return
        about = {
            "library": "rtc-agent",
            "library_version": __version__,
            "call_id": self._ready.call_id,
            "agent": self._ready.agent,
            "description": self._ready.description,
            "voice": self._ready.voice,
        }
        yield _message("bot-ready", {"version": self._version, "about": about}, self._hello or None)
        self._hello = None
        self._greeted = True
        while self._early:
            yield from self._tell(self._early.popleft())

    def _farewell(self, event: events.Ended) -> Iterator[str]:
        while self._greeted and self._early:
            yield from self._tell(self._early.popleft())
        for step in self._bursts.close():
            yield from self._burst(step)
        if event.reason in _FAULTS:
            yield _error(event.message, fatal=True)
        yield json.dumps({"type": "signalling", "message": {"type": "peerLeft"}})

    def _tell(self, event: CallEvent) -> Iterator[str]:
        for step in self._bursts.push(event):
            yield from self._burst(step)
        match event:
            case events.Speech(who="caller", speaking=speaking, frame=frame):
                self._caller_stopped = None if speaking else frame
                yield _message(f"user-{'started' if speaking else 'stopped'}-speaking")
            case events.Speech(who="agent", speaking=True, frame=frame):
                yield from self._response_time(frame)
            case events.Notice(code=code, message=message, fields=fields):
                if code == "overload":
                    yield _error(message, fatal=False)
                notice = {"type": "notice", "code": code, "message": message, **fields}
                yield _message("server-message", notice)
            case events.Stats(figures=figures):
                yield _message("server-message", {"type": "stats", **figures})
            case events.Levels(caller=caller, agent=agent) if self._wants_levels:
                yield _message("user-audio-level", {"value": caller})
                yield _message("bot-audio-level", {"value": agent})

    def _burst(self, step: BurstStep) -> Iterator[str]:
        match step.step:
            case Step.OPENED:
                yield _message("bot-llm-started")
                yield _message("bot-tts-started")
            case Step.HEARD:
                yield _message("bot-started-speaking")
                yield from self._speak([])
            case Step.TEXT:
                yield _message("bot-llm-text", {"text": step.text})
                yield _message("bot-tts-text", {"text": step.text})
                yield from self._say(self._sentences.push(step.text))
            case Step.SILENT:
                yield from self._speak(self._sentences.flush())
                yield _message("bot-stopped-speaking")
            case Step.CLOSED:
                yield from self._speak(self._sentences.flush())
                yield _message("bot-llm-stopped")
                yield _message("bot-tts-stopped")

    def _say(self, sentences: Sequence[str]) -> Iterator[str]:
        """Sentences as they close: told as spoken once the agent is audible."""
        if self._bursts.audible:
            yield from self._speak(sentences)
        else:
            self._unspoken.extend(sentences)

    def _speak(self, sentences: Sequence[str]) -> Iterator[str]:
        spoken, self._unspoken = [*self._unspoken, *sentences], []
        for sentence in spoken:
            yield _message("bot-transcription", {"text": sentence})
            yield self._output(sentence)

    def _output(self, text: str) -> str:
        self._segment += 1
        data: dict[str, Any] = {"text": text, "aggregated_by": "sentence"}
        if self._version.startswith("1"):
            return _message("bot-output", {**data, "spoken": True})
        progress = {"accumulated_text": text, "remaining_text": ""}
        data |= {"segment_id": self._segment, "will_be_spoken": True}
        return _message(
            "bot-output", {**data, "spoken_status": "completed", "spoken_progress": progress}
        )

    def _response_time(self, frame: int) -> Iterator[str]:
        """From the caller's last sound to the agent's first, as time to the first byte."""
        if self._caller_stopped is None:
            return
        seconds = (frame - self._caller_stopped) * events.FRAME_MS / 1e3
        self._caller_stopped = None
        agent = self._ready.agent if self._ready is not None else "agent"
        yield _message("metrics", {"ttfb": [{"processor": agent, "value": round(seconds, 3)}]})

    def _serve(self, envelope: Envelope) -> str:
        """A client message. Levels come only to those who ask: clients know no such message, and
        hand each of them to the application."""
        try:
            message = ClientMessage.model_validate(envelope.data or {})
        except ValidationError:
            return _refusal(envelope, "client-message needs `t`, its name.")
        if message.t != "audio-levels":
            known = "the one that is taken is `audio-levels`"
            return _refusal(envelope, f"No client message {message.t[:64]!r} is taken; {known}.")
        try:
            wish = LevelsWish.model_validate({} if message.d is None else message.d)
        except ValidationError:
            return _refusal(envelope, "audio-levels takes `enabled`, true or false.")
        self._wants_levels = wish.enabled
        served = {"t": message.t, "d": {"enabled": wish.enabled}}
        return _message("server-response", served, envelope.id)

    def _dtmf(self, envelope: Envelope) -> Received:
        try:
            keys = Keys.model_validate(envelope.data or {})
        except ValidationError:
            keys = Keys()
        digits = "".join(keys.buttons) or (keys.button or "")
        if not digits:
            return Received(replies=[_refusal(envelope, "dtmf needs `buttons` of 0-9, * and #.")])
        return Received(commands=[events.Dtmf(digits)])

    def _fault(self, message: str) -> Received:
        return Received(replies=[_error(message, fatal=False)])


def _signalling(envelope: Envelope) -> Received:
    """SmallWebRTC's own messages; of a track other than the microphone nothing is made."""
    try:
        status = TrackStatus.model_validate(envelope.message or {})
    except ValidationError:
        return Received()
    if status.receiver_index != AUDIO_TRACK:
        return Received()
    return Received(commands=[events.SetMuted(not status.enabled)])


def _message(type_: str, data: dict[str, Any] | None = None, id_: str | None = None) -> str:
    message: dict[str, Any] = {"label": MESSAGE_LABEL, "type": type_}
    if id_ is not None:
        message["id"] = id_
    if data is not None:
        message["data"] = data
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def _error(message: str, fatal: bool) -> str:
    """Servers name the text `error`, older clients read `message`: both are there."""
    return _message("error", {"error": message, "message": message, "fatal": fatal})


def _refusal(envelope: Envelope, message: str) -> str:
    return _message("error-response", {"error": message, "message": message}, envelope.id)
