"""The Realtime session object: what a client asks for, and what it is told it has.

The current shape nests audio settings and names its `type`; the beta's is flat. Either is read
whatever route it came by, and each client is answered in its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtc_agent.errors import InvalidRequest

SAMPLE_RATE = 24_000
MAX_INSTRUCTIONS = 100_000
"""Characters; the agent's own limit is far lower and its own error names it."""

DEFAULT_VOICE = "default"
"""Told to clients when the agent has no voices to choose from."""

OPENAI_VOICES = frozenset(
    "alloy ash ballad coral echo fable nova onyx sage shimmer verse marin cedar".split()
)
"""Voices that clients of the original ask for by default. They do not exist here; asking for one
gets the agent's default voice rather than a refusal."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a session object asks for that this server can give or must refuse."""

    instructions: str | None = None
    voice: str | None = None
    model: str | None = None
    unsupported: tuple[str, ...] = ()
    """Parameters that were asked for and cannot be had, such as `tools`."""


@dataclass(slots=True)
class Session:
    """One call's session, as its client sees it."""

    id: str
    model: str
    beta: bool = False
    instructions: str | None = None
    voice: str | None = None

    def describe(self) -> dict[str, Any]:
        """The session object in the client's own shape."""
        common: dict[str, Any] = {
            "id": self.id,
            "object": "realtime.session",
            "model": self.model,
            "instructions": self.instructions or "",
            "tools": [],
            "tool_choice": "auto",
        }
        voice = self.voice or DEFAULT_VOICE
        detection = {
            "type": "server_vad",
            "create_response": True,
            "interrupt_response": False,
        }
        if self.beta:
            shape = {
                "modalities": ["audio", "text"],
                "voice": voice,
                "input_audio_format": "pcm16",
                "output_audio_format": "pcm16",
                "input_audio_transcription": None,
                "turn_detection": detection,
                "temperature": 0.8,
                "max_response_output_tokens": "inf",
            }
        else:
            pcm = {"type": "audio/pcm", "rate": SAMPLE_RATE}
            hears = {
                "format": pcm,
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": detection,
            }
            shape = {
                "type": "realtime",
                "output_modalities": ["audio"],
                "audio": {
                    "input": hears,
                    "output": {"format": pcm, "voice": voice, "speed": 1.0},
                },
                "max_output_tokens": "inf",
                "tracing": None,
                "truncation": "auto",
            }
        return common | shape


def read_wishes(session: object) -> Wishes:
    """What a session object of either shape asks for.

    Raises:
        InvalidRequest: a known parameter has a value of the wrong kind; the message names it.
    """
    if not isinstance(session, Mapping):
        raise InvalidRequest("`session` must be an object.")
    if session.get("type", "realtime") != "realtime":
        raise InvalidRequest('`session.type` must be "realtime".')
    audio = _mapping(session.get("audio"), "session.audio")
    output = _mapping(audio.get("output"), "session.audio.output")
    voice = output.get("voice", session.get("voice"))
    if isinstance(voice, Mapping):
        voice = voice.get("id")
    instructions = _text(session.get("instructions"), "session.instructions")
    return Wishes(
        instructions=instructions,
        voice=_voice(_text(voice, "session.voice")),
        model=_text(session.get("model"), "session.model"),
        unsupported=tuple(_unsupported(session)),
    )


def _unsupported(session: Mapping[str, Any]) -> list[str]:
    asked = []
    if session.get("tools"):
        asked.append("session.tools")
    for name in ("output_modalities", "modalities"):
        modalities = session.get(name)
        if isinstance(modalities, list) and modalities and "audio" not in modalities:
            asked.append(f"session.{name}")
    return asked


def _voice(name: str | None) -> str | None:
    if name is None or name in OPENAI_VOICES or name == DEFAULT_VOICE:
        return None
    return name


def _mapping(value: object, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"`{name}` must be an object.")
    return value


def _text(value: object, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_INSTRUCTIONS:
        raise InvalidRequest(f"`{name}` must be a string of at most {MAX_INSTRUCTIONS} characters.")
    return value
