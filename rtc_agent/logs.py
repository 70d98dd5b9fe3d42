"""Logging: stdlib loggers, every line with the call it belongs to."""

from __future__ import annotations

import contextvars
import logging
import sys
from typing import Literal

from pythonjsonlogger.json import JsonFormatter

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


Level = Literal["debug", "info", "warning", "error"]


def setup(level: Level = "info", style: Literal["text", "json"] = "text") -> None:
    """Log to stderr. Libraries stay at warning: their info lines carry addresses of callers.

    Args:
        style: lines for people, or a JSON object a line with `time` (RFC 3339, UTC), `level`,
            `logger`, `call_id`, `message` and, after a fault, `exc_info`.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_CallIdFilter())
    handler.setFormatter(_json_formatter() if style == "json" else _text_formatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("aiohttp.server").addFilter(_NotUnderstood())
    set_level(level)


def set_level(level: Level) -> None:
    """Log nothing of ours that is less severe."""
    for name in ("rtc_agent", "signaling"):
        logging.getLogger(name).setLevel(level.upper())


def _text_formatter() -> logging.Formatter:
    return logging.Formatter("%(asctime)s %(levelname)-7s %(name)s [%(call_id)s] %(message)s")


def _json_formatter() -> logging.Formatter:
    return JsonFormatter(
        "%(levelname)s %(name)s %(call_id)s %(message)s",
        rename_fields={"levelname": "level", "name": "logger", "timestamp": "time"},
        timestamp=True,
    )
