"""A key as settings have it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

MIN_SECRET_CHARS = 20
"""Of a key in the clear: keys are compared by a plain hash, so they have to be hard to guess."""


class KeySetting(BaseModel):
    """One key: `secret`, or `file` with the secret in it, or the secret's `sha256` in hex.

    Only the hash is kept, whichever was given.
    """

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[\w.-]{1,64}$")
    sha256: str = Field("", pattern=r"^(?:[0-9a-f]{64})?$")
    scopes: list[Literal["call", "listen", "admin"]] = ["call"]
    max_calls: int = Field(0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _hash(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        rest = {name: value for name, value in given.items() if name not in ("secret", "file")}
        ways = [name for name in ("secret", "file", "sha256") if given.get(name)]
        if len(ways) != 1:
            raise ValueError("a key has one of `secret`, `file` and `sha256`")
        if ways[0] == "sha256":
            return rest
        secret = given["secret"] if ways[0] == "secret" else _read(Path(str(given["file"])))
        if isinstance(secret, SecretStr):
            secret = secret.get_secret_value()
        fits = isinstance(secret, str) and len(secret) >= MIN_SECRET_CHARS and secret.isascii()
        if not fits:
            raise ValueError(
                f"a key's secret has at least {MIN_SECRET_CHARS} characters, all ASCII; "
                "`rtc-agent token --new NAME` makes one"
            )
        return rest | {"sha256": hashlib.sha256(secret.encode()).hexdigest()}

    @field_validator("scopes")
    @classmethod
    def _some(cls, scopes: list[str]) -> list[str]:
        if not scopes:
            raise ValueError("a key without a scope opens nothing")
        return scopes


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the key's file {path} cannot be read") from error
