"""Keys: who brings which may do what."""

from __future__ import annotations

import enum
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass


class Scope(enum.StrEnum):
    """What a key opens."""

    CALL = "call"
    """Place calls, and make client secrets that do."""
    LISTEN = "listen"
    """Listen in on calls."""
    ADMIN = "admin"
    """See calls and figures, and end calls. Includes neither of the others."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key, without the secret that it stands for."""

    name: str
    sha256: str
    """Of the secret, in hex. Secrets are long and random, so that a plain hash does."""
    scopes: frozenset[Scope] = frozenset({Scope.CALL})
    max_calls: int = 0
    """Calls at once; 0 does not limit."""


class KeyRing:
    """The keys that this server knows."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = tuple(keys)
        self._digests = [bytes.fromhex(key.sha256) for key in self._keys]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, secret: str) -> Key | None:
        """The key of that secret. Takes as long whichever it is, and if it is none."""
        digest = hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
        found = None
        for key, known in zip(self._keys, self._digests, strict=True):
            if hmac.compare_digest(digest, known):
                found = key
        return found

    def named(self, name: str) -> Key | None:
        return next((key for key in self._keys if key.name == name), None)
