"""The seam between a call and the engine, in this process or in another.

A call hands the engine a `FrameSource` to pull caller audio from and a `FrameSink` for what the
agent answers. Both are called on the event loop, once a tick, and must return at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from rtc_agent.engine.stepper import Pcm, SessionSpec, StepperInfo


class FrameSource(Protocol):
    """Where a session's caller audio comes from. One reservation is outstanding at most."""

    def reserve(self) -> Pcm:
        """The [1920] samples at 24 kHz that end at this moment of the call; silence where the
        caller sent nothing, concealment where packets were lost. Never blocks."""
        ...

    def commit(self) -> None:
        """The reserved frame was stepped: it is consumed."""
        ...

    def rollback(self) -> None:
        """The step failed: the next `reserve` gives the same frame again."""
        ...

    def skip(self) -> None:
        """The engine is late by a whole tick: drop one frame's time of audio and count it."""
        ...


@dataclass(frozen=True, slots=True)
class AgentFrame:
    """What the agent said in one frame."""

    index: int
    """Frames since the session went live, skipped ones counted: 80 ms each, never going back."""
    pcm: Pcm
    """[1920] samples at 24 kHz, −1 … 1."""
    text: str
    """Text that became showable with this frame; usually empty."""


class FrameSink(Protocol):
    """Where a session's agent frames and its ending go."""

    def on_ready(self) -> None:
        """The slot is open: `EngineSession.start` may be called."""
        ...

    def on_frame(self, frame: AgentFrame) -> None: ...

    def on_skipped(self, frames: int) -> None:
        """The engine was late: so many frames were neither heard nor answered."""
        ...

    def tell(self, code: str, message: str, **fields: Any) -> None:
        """Something about the agent that the caller should know; the session goes on. `code` is
        for programs, `message` for a person."""
        ...

    def on_failed(self, reason: str) -> None:
        """The session ended on the engine's side; nothing follows. `reason` is for a person."""
        ...


class EngineSession(Protocol):
    """One open session. Its slot is freed by `close`, whatever state it is in."""

    @property
    def ready(self) -> bool:
        """Whether `on_ready` has been called."""
        ...

    def start(self) -> None:
        """Exchange frames from the next tick on; that tick is the session's frame 0.

        Apart from `open`, so that a slot can be prepared while the caller still connects and the
        agent says nothing before it can be heard.
        """
        ...

    def reopen(self, spec: SessionSpec) -> None:
        """Begin again in the same slot, as if opened with this spec, which `EngineClient.check`
        has let pass: `sink.on_ready` follows, then `start` is due, and frames count from 0 once
        more. Nothing is delivered meanwhile."""
        ...

    def close(self) -> None:
        """End the session and free its slot. Idempotent; no sink method is called afterwards."""
        ...


CALL_FAILED = "The call failed inside the server."
"""Why a session ended whose source or sink raised: its fault is in the log."""

STEP_BUCKETS_MS = (2.5, 5, 10, 20, 30, 40, 50, 60, 70, 80, 100, 160)
"""Upper ends of the counts in `EngineStatus.step_counts`; the last count is of longer steps."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """How the engine is doing."""

    ready: bool
    detail: str
    """Why it is not ready; empty when it is."""
    slots: int
    slots_free: int
    ticks: int
    skipped_ticks: int
    step_ms_p50: float
    """Of a step by itself, without what it waited for on the device."""
    step_ms_p99: float
    open_ms_p50: float = 0.0
    """Work that preparing a session took, of those prepared lately."""
    open_ms_p99: float = 0.0
    piece_ms_max: float = 0.0
    """The longest piece of it, which is what a tick may have to wait for."""
    step_counts: tuple[int, ...] = (0,) * (len(STEP_BUCKETS_MS) + 1)
    """Steps so far by how long they took."""
    step_ms_sum: float = 0.0
    lost_frames: int = 0
    """Frames of all sessions whose sound could not be made."""
    banks: int = 1
    """Parts of the slots whose ticks are apart; steps and ticks are counted of each."""


class EngineClient(Protocol):
    """What calls and signaling know of the engine."""

    @property
    def info(self) -> StepperInfo: ...

    def status(self) -> EngineStatus: ...

    def next_tick_s(self) -> float:
        """The next tick's deadline on the injected clock, in seconds."""
        ...

    def check(self, spec: SessionSpec) -> None:
        """Raises UnknownVoice or InvalidPersona for a spec this agent cannot serve."""
        ...

    async def open(
        self, spec: SessionSpec, source: FrameSource, sink: FrameSink, call_id: str
    ) -> EngineSession:
        """Take a slot at once and prepare it between ticks; `sink.on_ready` follows.

        Raises:
            ServerFull: every slot is taken.
            EngineFailed: the engine is not running.
        """
        ...

    async def aclose(self) -> None: ...
