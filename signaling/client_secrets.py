"""Short-lived keys for clients that nobody trusts with a real one: a browser, a phone's app.

A client secret carries what it is for and until when, signed: any process and any host that has the
same signing key can check one, and none has to remember it. What it carries can be read by its
holder and not be changed. One that is out cannot be called back before it expires.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rtc_agent.errors import InvalidRequest, Unauthorized

PREFIX = "ek_"
MAX_CHARS = 7_000
"""Of a secret: web servers read header lines of 8 KiB."""
MAX_SESSION_BYTES = 256 * 1024
_SIGNATURE_BYTES = 32


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """What a client secret says."""

    key: str
    """Name of the key that made it; empty where there are none."""
    expires_at: int
    """Seconds since 1970."""
    session: Mapping[str, Any] = field(default_factory=dict)
    """What the call is to be."""


class ClientSecrets:
    """Makes client secrets and reads them."""

    def __init__(self, signing_key: bytes, wall: Callable[[], float]) -> None:
        """
        Args:
            wall: seconds since 1970. Hosts that share the signing key must agree on it.
        """
        self._signing_key = signing_key
        self._wall = wall

    def make(self, key: str, ttl_s: int, session: Mapping[str, Any]) -> tuple[str, int]:
        """A secret and when it expires.

        Raises:
            InvalidRequest: the session is too long to be carried.
        """
        expires_at = int(self._wall()) + ttl_s
        content = json.dumps([key, expires_at, dict(session)], separators=(",", ":"))
        packed = zlib.compress(content.encode(), 9)
        text = PREFIX + base64.urlsafe_b64encode(self._sign(packed) + packed).decode().rstrip("=")
        if len(text) > MAX_CHARS or len(content) > MAX_SESSION_BYTES:
            raise InvalidRequest(
                "The session is too long for a client secret; send `instructions` with the offer."
            )
        return text, expires_at

    def read(self, text: str) -> ClientSecret:
        """What a secret says.

        Raises:
            Unauthorized: it was not made with this signing key, or has expired.
        """
        found = self._open(text)
        if found is None or found.expires_at <= self._wall():
            raise Unauthorized(
                "This client secret is unknown here or has expired; "
                "POST /v1/realtime/client_secrets makes one."
            )
        return found

    def _open(self, text: str) -> ClientSecret | None:
        if not text.startswith(PREFIX) or len(text) > MAX_CHARS:
            return None
        body = text.removeprefix(PREFIX)
        try:
            raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        signature, packed = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._sign(packed)):
            return None
        key, expires_at, session = json.loads(zlib.decompress(packed))
        return ClientSecret(key, expires_at, session)

    def _sign(self, packed: bytes) -> bytes:
        return hmac.digest(self._signing_key, packed, hashlib.sha256)
