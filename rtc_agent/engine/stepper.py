"""The seam between the engine and whatever turns caller frames into agent frames.

One `FrameStepper` serves a fixed number of slots. Every 80 ms it takes one frame of each live slot
and gives one back. Echo, PersonaPlex and any later lock-step model fit this seam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

SAMPLE_RATE = 24_000
"""Hz, mono, on both sides of the seam."""
FRAME_SAMPLES = 1_920
"""Samples a frame: 80 ms at 24 kHz."""
FRAME_S = FRAME_SAMPLES / SAMPLE_RATE
"""Seconds a frame."""

Pcm = npt.NDArray[np.float32]
"""Samples in −1 … 1."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Draws:
    """From how many of the likeliest tokens one is drawn, and how evenly. Defaults are the
    reference server's."""

    text_temperature: float = 0.7
    text_top_k: int = 25
    audio_temperature: float = 0.8
    audio_top_k: int = 250


REFERENCE_DRAWS = Draws()


@dataclass(frozen=True, slots=True)
class SamplingSpec:
    """How a session draws its tokens; what is None is as the agent usually does it."""

    greedy: bool = False
    text_temperature: float | None = None
    text_top_k: int | None = None
    audio_temperature: float | None = None
    audio_top_k: int | None = None
    seed: int | None = None
    """None lets the stepper choose one; two sessions of the same seed and input say the same."""

    def draws(self, usual: Draws = REFERENCE_DRAWS) -> Draws:
        """What was chosen, and for the rest the agent's usual."""
        chosen = {f.name: getattr(self, f.name) for f in fields(Draws)}
        return replace(usual, **{name: v for name, v in chosen.items() if v is not None})

    def filled(self, usual: Draws) -> SamplingSpec:
        """The same with nothing left to the agent."""
        return replace(self, **asdict(self.draws(usual)))


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """What a call chose before it was opened; nothing of it can change later."""

    voice: str | None = None
    """A name out of `StepperInfo.voices`; None is the agent's default voice."""
    persona: str | None = None
    """Plain text, unwrapped; None or empty is no persona."""
    sampling: SamplingSpec = field(default_factory=SamplingSpec)


@dataclass(frozen=True, slots=True)
class StepperInfo:
    """What a stepper is, for `/v1/info`, the page and the checks of a session spec."""

    agent: str
    """echo, demo, tiny, mirror, personaplex or moshi."""
    description: str
    """One plain sentence for a person."""
    voices: tuple[str, ...] = ()
    default_voice: str | None = None
    voice_samples: Mapping[str, str] = field(default_factory=dict)
    """Voice → a WAV file on this machine with a short listen to it, of voices that have one."""
    takes_persona: bool = False
    follows_persona: bool = True
    """Whether a persona that it takes is heard in what it says."""
    persona_names: tuple[str, ...] = ()
    """By which a persona may call an agent that follows nothing else of one; of others none."""
    persona_max_chars: int = 0
    """About how long a persona of plain English may be; 0: not known. Longer ones are refused."""
    notice: str = ""
    """Something a person should know, such as why a lesser agent answers."""
    latency_frames: int = 0
    """Frames from a caller's frame to the agent frame that answers it, beyond the step itself."""
    held_frames: int = 0
    """How many of those go by because sound is made in chunks of several frames."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step gave, for every slot at once."""

    pcm: Pcm
    """[slots, FRAME_SAMPLES]; rows of slots that were not live are undefined."""
    text: Mapping[int, str]
    """Slot → text that became showable on this frame; slots without any are absent."""
    failed: Mapping[int, str] = field(default_factory=dict)
    """Slot → why that slot alone cannot go on. The engine ends its session; no other is touched."""
    held: frozenset[int] = frozenset()
    """Slots whose next frame is still being made: silence, and no frame of the agent's, goes out in
    this step."""
    lost: frozenset[int] = frozenset()
    """Slots whose frame's sound could not be made: it is silence, with the frame's own text."""


class FrameStepper(Protocol):
    """A fixed batch of slots stepped together, from one thread at a time, never the event loop's.

    A slot's output depends on that slot's session alone: not on its neighbours, and not on whoever
    had the slot before.
    """

    @property
    def slots(self) -> int:
        """How many sessions it holds at once."""
        ...

    @property
    def info(self) -> StepperInfo: ...

    def check(self, spec: SessionSpec) -> None:
        """Refuse a spec that `open` could not serve. Quick, callable from any thread.

        Raises:
            UnknownVoice, InvalidPersona: the message says what there is.
        """
        ...

    def open(self, slot: int, spec: SessionSpec) -> Iterator[None]:
        """Prepare a free slot, a bounded piece of work for every `next()`.

        The engine runs the pieces between ticks, so that opening a call never makes a live one miss
        its tick. When the iterator ends, the slot is ready to be stepped. Closing it early (the
        caller gave up) leaves the slot free.
        """
        ...

    def step(self, pcm: Pcm, live: Mask) -> StepResult:
        """Advance every live slot by one frame.

        Args:
            pcm: [slots, FRAME_SAMPLES] caller audio; rows of slots not live are ignored.
            live: [slots] which slots take part; a slot left out keeps its state untouched.
        """
        ...

    def close(self, slot: int) -> str:
        """End the slot's session; the slot is as good as new for the next `open`.

        Returns:
            Text that was still held back, as the beginning of a character is.
        """
        ...

    def shutdown(self) -> None:
        """Release everything. Idempotent."""
        ...


@runtime_checkable
class PipelinedStepper(FrameStepper, Protocol):
    """A stepper that can take the next frames before the sound of the last ones is there."""

    def begin(self, pcm: Pcm, live: Mask) -> Callable[[], StepResult]:
        """As `step`, but for waiting for the sound. The callable does that, in a bounded time, and
        gives the step's result; it may run while another `begin` or `open` does, in the order of
        the steps, and before any `close`."""
        ...


@runtime_checkable
class KeepingStepper(FrameStepper, Protocol):
    """A stepper that keeps the prompts of sessions that were opened lately."""

    def keeps(self, spec: SessionSpec) -> bool:
        """Whether `open` would copy a prompt that was run before, or has none to run."""
        ...


def opens_at_once(stepper: FrameStepper, spec: SessionSpec) -> bool:
    """Whether opening a slot for this spec runs no prompt. Quick, callable from any thread."""
    return not isinstance(stepper, KeepingStepper) or stepper.keeps(spec)
