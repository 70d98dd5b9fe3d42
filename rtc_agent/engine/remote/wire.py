"""What the engine's process and a media process say to each other: JSON lines on a local socket."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from rtc_agent import errors
from rtc_agent.engine.client import EngineStatus
from rtc_agent.engine.stepper import SamplingSpec, SessionSpec, StepperInfo
from rtc_agent.errors import EngineFailed, RtcAgentError

MAX_LINE_BYTES = 1 << 20
"""More than the longest persona, or a tick's text for a thousand calls."""
MAX_UNSENT_BYTES = 4 << 20
"""A reader this far behind is as good as dead."""

Message = dict[str, Any]


class Wire:
    """One end of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, type_: str, **fields: Any) -> None:
        """Queue a message; a peer that reads nothing is cut off instead of filling memory."""
        if self._writer.is_closing():
            return
        if self._writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._writer.transport.abort()
            return
        line = json.dumps({"type": type_, **fields}, separators=(",", ":"))
        self._writer.write(line.encode() + b"\n")

    async def receive(self) -> Message | None:
        """The next message; None once the other end is gone."""
        try:
            line = await self._reader.readline()
        except (ConnectionError, ValueError):
            return None
        if not line.endswith(b"\n"):
            return None
        message: Message = json.loads(line)
        return message

    def close(self) -> None:
        self._writer.close()


def pack_spec(spec: SessionSpec) -> Message:
    return dataclasses.asdict(spec)


def unpack_spec(fields: Mapping[str, Any]) -> SessionSpec:
    return SessionSpec(**{**fields, "sampling": SamplingSpec(**fields["sampling"])})


def pack_info(info: StepperInfo) -> Message:
    return dataclasses.asdict(info)


def unpack_info(fields: Mapping[str, Any]) -> StepperInfo:
    tuples = {name: tuple(fields[name]) for name in ("voices", "persona_names")}
    return StepperInfo(**{**fields, **tuples})


def pack_status(status: EngineStatus) -> Message:
    return dataclasses.asdict(status)


def unpack_status(fields: Mapping[str, Any]) -> EngineStatus:
    return EngineStatus(**{**fields, "step_counts": tuple(fields["step_counts"])})


def pack_error(error: RtcAgentError) -> Message:
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "retry_after_s": error.retry_after_s,
    }


def unpack_error(fields: Mapping[str, Any]) -> RtcAgentError:
    kind = getattr(errors, fields["kind"], EngineFailed)
    error: RtcAgentError = kind(fields["message"], retry_after_s=fields["retry_after_s"])
    return error
