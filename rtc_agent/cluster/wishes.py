"""Which prompt a new call wants, as far as its request tells before anybody has answered it.

An engine keeps the prompts that it ran lately, and opens a call with one of them at once. So a call
goes, if it can, to a replica that had one with the same voice and persona. To be wrong costs a
prompt's time and nothing else, which is why requests are only looked at here, and not checked.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from aiohttp import web

REMEMBERED = 16
"""Prompts that a replica is taken to hold. An engine of PersonaPlex's size keeps some more."""


def prompt_of(
    request: web.Request, body: bytes, session: Mapping[str, Any] | None = None
) -> str | None:
    """A name for the voice and persona that this request asks for, the same for the same.

    Args:
        session: what the client secret that came along says of the session.

    Returns:
        None if it cannot be told, or nothing is asked for.
    """
    match request.path:
        case "/api/chat":
            voice = request.query.get("voice_prompt", "").removesuffix(".pt")
            return _name(voice, request.query.get("text_prompt"))
        case "/whip":
            return _name(request.query.get("voice"), request.query.get("persona"))
        case "/v1/realtime" | "/v1/realtime/calls":
            return _name(*_of_session(session or {}))
        case "/start":
            return _name(*_of_json(body, "body"))
        case _:
            return _name(*_of_json(body, "request_data", "requestData"))


def _of_session(session: Mapping[str, Any]) -> tuple[object, object]:
    audio = session.get("audio")
    output = audio.get("output") if isinstance(audio, dict) else None
    voice = output.get("voice") if isinstance(output, dict) else None
    return voice or session.get("voice"), session.get("instructions")


def _of_json(body: bytes, *names: str) -> tuple[object, object]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(fields, dict):
        return None, None
    for name in names:
        if isinstance(wished := fields.get(name), dict):
            return wished.get("voice"), wished.get("persona")
    return None, None


def _name(voice: object, persona: object) -> str | None:
    words = [each.strip() if isinstance(each, str) else "" for each in (voice, persona)]
    if not any(words):
        return None
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Remembered:
    """The prompts of the calls placed last."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._names: OrderedDict[str, None] = OrderedDict()

    def add(self, name: str | None) -> None:
        if name is None:
            return
        self._names[name] = None
        self._names.move_to_end(name)
        if len(self._names) > self._most:
            self._names.popitem(last=False)

    @property
    def names(self) -> list[str]:
        return list(self._names)
