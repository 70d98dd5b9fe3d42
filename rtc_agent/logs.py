"""Logging: stdlib loggers, every line with the call it belongs to."""

from __future__ import annotations

import contextvars
import logging
import sys
from typing import Literal

call_id: contextvars.ContextVar[str] = contextvars.ContextVar("call_id", default="-")
"""The public id of the call that the current task serves."""


class _CallIdFilter(logging.Filter):
    """Gives every record a `call_id`, from `extra` where the caller said one."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "call_id"):
            record.call_id = call_id.get()
        return True


class _NotUnderstood(logging.Filter):
    """Drops the web server's traces about bytes that are no HTTP. They were answered with a 400,
    and anybody who finds the port can make as many as he likes."""

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.exc_info[0] if record.exc_info else None
        return kind is None or not kind.__module__.startswith("aiohttp.")


def setup(level: Literal["debug", "info", "warning", "error"] = "info") -> None:
    """Log to stderr. Libraries stay at warning: their info lines carry addresses of callers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_CallIdFilter())
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(name)s [%(call_id)s] %(message)s")
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("aiohttp.server").addFilter(_NotUnderstood())
    for name in ("rtc_agent", "signaling"):
        logging.getLogger(name).setLevel(level.upper())
