"""On whose behalf a call is made."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Holder:
    """Whoever asked for a call, as far as the server knows."""

    key: str = ""
    """Name of the key that was brought; empty: none."""
    address: str = ""
    """IP address of the client."""


NOBODY = Holder()
"""Whoever asks without a request: a telephone, a test."""

holder: contextvars.ContextVar[Holder] = contextvars.ContextVar("holder", default=NOBODY)
"""Of the request that the current task answers."""
