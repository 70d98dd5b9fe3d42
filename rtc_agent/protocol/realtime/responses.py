"""Responses where the agent has no turns: one for every burst of its speech."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from rtc_agent.protocol.bursts import BurstStep, Step
from rtc_agent.protocol.realtime.items import Item, Items
from rtc_agent.protocol.realtime.session import SAMPLE_RATE, Session

ServerEvent = tuple[str, dict[str, Any]]
"""A server event's type, in its current name, and its fields."""

Status = Literal["in_progress", "completed", "cancelled"]


class Responses:
    """Makes the events of one response after the other.

    The audio is on the media track, so no event carries any. A response that is cancelled ends for
    the client; whatever the agent says after that begins the next one.
    """

    def __init__(self, session: Session, items: Items, prefix: str) -> None:
        self._session = session
        self._items = items
        self._prefix = prefix
        self._count = 0
        self._item: Item | None = None
        self._sounding = False

    @property
    def active(self) -> str | None:
        """Id of the response in progress."""
        return None if self._item is None else self._id

    def follow(self, step: BurstStep) -> Iterator[ServerEvent]:
        """What a step of the agent's speech means to the client."""
        match step.step:
            case Step.OPENED:
                yield from self._begin()
            case Step.HEARD:
                yield from self._begin()
                self._sounding = True
                yield "output_audio_buffer.started", {"response_id": self._id}
            case Step.TEXT:
                yield from self._begin()
                if self._item is not None:
                    self._item.transcript = (self._item.transcript or "") + step.text
                part = self._part | {"delta": step.text}
                yield "response.output_audio_transcript.delta", part
            case Step.CLOSED:
                yield from self.finish("completed")

    def finish(self, status: Literal["completed", "cancelled"]) -> Iterator[ServerEvent]:
        """Close the response in progress, if there is one."""
        item = self._item
        if item is None:
            return
        transcript = item.transcript or ""
        item.status = "completed" if status == "completed" else "incomplete"
        part = self._part
        yield "response.output_audio.done", part
        yield "response.output_audio_transcript.done", part | {"transcript": transcript}
        content = {"type": "audio", "transcript": transcript}
        yield "response.content_part.done", part | {"part": content}
        yield "response.output_item.done", self._place | {"item": item.describe()}
        yield (
            "conversation.item.done",
            {"previous_item_id": item.previous, "item": item.describe()},
        )
        yield "response.done", {"response": self._describe(status, [item.describe()])}
        if self._sounding:
            self._sounding = False
            kind = "stopped" if status == "completed" else "cleared"
            yield f"output_audio_buffer.{kind}", {"response_id": self._id}
        self._item = None

    def _begin(self) -> Iterator[ServerEvent]:
        if self._item is not None:
            return
        self._count += 1
        self._item = item = self._items.add("assistant")
        yield "response.created", {"response": self._describe("in_progress", [])}
        yield "response.output_item.added", self._place | {"item": item.describe()}
        yield (
            "conversation.item.added",
            {"previous_item_id": item.previous, "item": item.describe()},
        )
        empty = {"type": "audio", "transcript": ""}
        yield "response.content_part.added", self._part | {"part": empty}

    @property
    def _id(self) -> str:
        return f"resp_{self._prefix}_{self._count}"

    @property
    def _place(self) -> dict[str, Any]:
        return {"response_id": self._id, "output_index": 0}

    @property
    def _part(self) -> dict[str, Any]:
        item_id = self._item.id if self._item is not None else ""
        return self._place | {"item_id": item_id, "content_index": 0}

    def _describe(self, status: Status, output: list[dict[str, Any]]) -> dict[str, Any]:
        details = None
        if status == "cancelled":
            details = {"type": "cancelled", "reason": "client_cancelled"}
        shape: dict[str, Any]
        if self._session.beta:
            shape = {"modalities": ["audio", "text"], "voice": self._session.voice}
        else:
            pcm = {"type": "audio/pcm", "rate": SAMPLE_RATE}
            shape = {
                "output_modalities": ["audio"],
                "audio": {"output": {"format": pcm, "voice": self._session.voice}},
            }
        return {
            "object": "realtime.response",
            "id": self._id,
            "status": status,
            "status_details": details,
            "output": output,
            "conversation_id": f"conv_{self._prefix}",
            "max_output_tokens": "inf",
            "usage": None,
            "metadata": None,
        } | shape
