"""Which key each address of the server needs. What is not named here needs an admin's."""

from __future__ import annotations

import enum
import re

from signaling.keyring import Scope


class Need(enum.Enum):
    """What is asked of a request before it is answered."""

    NOTHING = enum.auto()
    CALL = enum.auto()
    """A key for calls: this begins one, or promises one."""
    CALL_OR_ITS_ID = enum.auto()
    """The same, unless it names a call in progress by its unguessable id."""
    OWN = enum.auto()
    """The route looks at the key itself."""
    ADMIN = enum.auto()

    @property
    def scope(self) -> Scope | None:
        return {
            Need.CALL: Scope.CALL,
            Need.CALL_OR_ITS_ID: Scope.CALL,
            Need.ADMIN: Scope.ADMIN,
        }.get(self)


_STARTS_A_CALL = frozenset(
    {
        *("/start", "/whip"),
        *("/v1/realtime", "/v1/realtime/calls"),
        *("/v1/realtime/client_secrets", "/v1/realtime/sessions"),
    }
)
_OPEN = frozenset({"/healthz", "/readyz", "/v1/info", "/openapi.json"})
_HELD_BY_ID = re.compile(
    r"/whip/[^/]+|/sessions/[^/]+/api/offer|/v1/realtime/calls/[^/]+/hangup|/api/offer"
)
"""Whoever knows the id of a session holds the session: the key that it began with may have expired
long before a call ends."""
_FOR_CALLERS = re.compile(r"/v1/voices/[^/]+/sample")
_OWN = re.compile(r"/whep/.+|/v1/phone(?:/.*)?")

CHAT = "/api/chat"
SESSION_ID = "session_id"
"""The parameter of `CHAT` that names a call in progress."""

INTERNAL = "/internal/"
"""What only a front asks its workers, over their local sockets; it passes none of it on."""
HOLDERS = f"{INTERNAL}holders"


def need(method: str, path: str, page: frozenset[str]) -> Need:
    """What a request has to bring.

    Args:
        page: addresses of the call page's files.
    """
    if path in page or path in _OPEN or path.startswith(INTERNAL):
        return Need.NOTHING
    if path == "/api/offer" and method == "POST":
        return Need.CALL_OR_ITS_ID
    if path == CHAT:
        return Need.CALL_OR_ITS_ID
    if path in _STARTS_A_CALL:
        return Need.NOTHING if (method, path) == ("GET", "/whip") else Need.CALL
    if _FOR_CALLERS.fullmatch(path):
        return Need.CALL
    if _HELD_BY_ID.fullmatch(path):
        return Need.NOTHING
    if _OWN.fullmatch(path):
        return Need.OWN
    return Need.ADMIN


def begins_a_call(method: str, path: str) -> bool:
    """Whether the request counts against the limits of its key and address."""
    if path == CHAT:
        return True
    if method != "POST":
        return False
    begins = path == "/api/offer" or path in _STARTS_A_CALL
    return begins or path.startswith(("/sessions/", "/whep/"))
