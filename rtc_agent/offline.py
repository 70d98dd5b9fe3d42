"""A WAV in, a WAV and a text out: one session of any stepper, without a server.

Frame n of the file is given to tick n and what the stepper gives back is frame n of the output, as
in a live call; a stepper that holds frames back is run on until it has given them out. So the
output is as long as the input, and the same frames, seed and settings say the same things offline
and live.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, repeat

import numpy as np

from rtc_agent.engine.stepper import (
    FRAME_S,
    FRAME_SAMPLES,
    SAMPLE_RATE,
    FrameStepper,
    Pcm,
    SessionSpec,
)
from rtc_agent.errors import EngineFailed
from rtc_agent.media.levels import AUDIBLE_DBFS, dbfs

_TAIL_FRAMES = 3
"""Frames at the end in which sound or text means that a reply was still going."""


@dataclass(frozen=True, slots=True)
class TextEvent:
    """Text that became showable on one frame."""

    frame: int
    """80 ms frames since the output's start."""
    t_ms: int
    delta: str


@dataclass(slots=True)
class OfflineResult:
    """What one run said, beside its samples."""

    seed: int | None
    """What the sampling was seeded with; None when greedy."""
    samples: int = 0
    """24 kHz samples written."""
    frames: int = 0
    events: list[TextEvent] = field(default_factory=list)
    reply_cut: bool = False
    """The agent was still speaking when the input ended."""

    @property
    def text(self) -> str:
        return "".join(event.delta for event in self.events)

    def as_json(self) -> dict[str, object]:
        """The text file's content, and the result line of the command."""
        return {
            "text": self.text,
            "frames": self.frames,
            "duration_s": round(self.samples / SAMPLE_RATE, 3),
            "sample_rate": SAMPLE_RATE,
            "seed": self.seed,
            "reply_cut": self.reply_cut,
            "events": [
                {"frame": event.frame, "t_ms": event.t_ms, "delta": event.delta}
                for event in self.events
            ],
        }


@dataclass(frozen=True, slots=True)
class Silence:
    """Silence around the input, in seconds; both are part of the output's length."""

    leading_s: float = 0.0
    """Lets an agent that greets first do so before the caller speaks."""
    trailing_s: float = 0.0
    """Lets a reply end."""

    @property
    def leading_frames(self) -> int:
        return round(self.leading_s / FRAME_S)

    @property
    def trailing_samples(self) -> int:
        return round(self.trailing_s * SAMPLE_RATE)


def run_offline(
    stepper: FrameStepper,
    frames: Iterable[Pcm],
    input_samples: Callable[[], int],
    write: Callable[[Pcm], None],
    spec: SessionSpec,
    silence: Silence = Silence(),
    on_frame: Callable[[], None] = lambda: None,
) -> OfflineResult:
    """Run one session over `frames` in slot 0 and write what the agent said.

    Args:
        frames: the caller's [1920] frames at 24 kHz, the last one padded.
        input_samples: how many of their samples are real; asked once they have all been taken.
        write: takes the agent's samples in order, as they come.
        on_frame: called once a frame, for a progress bar.

    Raises:
        UnknownVoice, InvalidPersona: the stepper cannot serve the spec.
        EngineFailed: the session failed on the way.
    """
    sampling = spec.sampling
    if not sampling.greedy and sampling.seed is None:
        # Drawn here and not in the stepper, so that the result says how to get it again.
        sampling = replace(sampling, seed=secrets.randbits(31))
    spec = replace(spec, sampling=sampling)
    stepper.check(spec)
    for _ in stepper.open(0, spec):
        pass
    try:
        session = _Session(stepper, OfflineResult(None if sampling.greedy else sampling.seed))
        for pcm in _with_silence(frames, silence.leading_frames):
            session.step(pcm, write)
            on_frame()
        total = silence.leading_frames * FRAME_SAMPLES + input_samples() + silence.trailing_samples
        while session.result.frames * FRAME_SAMPLES < total:
            session.step(_SILENT, write)
            on_frame()
        session.finish(total, write)
    except BaseException:
        stepper.close(0)
        raise
    session.end(stepper.close(0))
    return session.result


class _Session:
    """Steps slot 0 and holds one frame back, since the last one may be cut."""

    def __init__(self, stepper: FrameStepper, result: OfflineResult) -> None:
        self._stepper = stepper
        self.result = result
        self._batch = np.zeros((stepper.slots, FRAME_SAMPLES), np.float32)
        self._live = np.arange(stepper.slots) == 0
        self._held = _NOTHING
        self._last_sound = -_TAIL_FRAMES - 1

    def step(self, pcm: Pcm, write: Callable[[Pcm], None]) -> None:
        index = self.result.frames
        self._batch[0] = pcm
        out = self._stepper.step(self._batch, self._live)
        if 0 in out.held:
            return
        if 0 in out.failed:
            at_s = index * FRAME_S
            raise EngineFailed(f"The session failed {at_s:.2f} s in: {out.failed[0]}")
        if 0 in out.lost:
            at_s = index * FRAME_S
            raise EngineFailed(f"The session failed {at_s:.2f} s in: its sound could not be made.")
        if delta := out.text.get(0, ""):
            self.result.events.append(TextEvent(index, round(index * FRAME_S * 1000), delta))
        write(self._held)
        self._held = out.pcm[0].copy()
        if delta or dbfs(self._held) > AUDIBLE_DBFS:
            self._last_sound = index
        self.result.frames = index + 1

    def finish(self, total: int, write: Callable[[Pcm], None]) -> None:
        """Write the frame that was held back, as much of it as there is of the input."""
        result = self.result
        write(self._held[: total - (result.frames - 1) * FRAME_SAMPLES] if total else _NOTHING)
        result.samples = total
        result.reply_cut = result.frames > 0 and self._last_sound >= result.frames - _TAIL_FRAMES

    def end(self, rest: str) -> None:
        """Take the text that no further frame made showable."""
        if rest:
            at = max(self.result.frames - 1, 0)
            self.result.events.append(TextEvent(at, round(at * FRAME_S * 1000), rest))


def _with_silence(frames: Iterable[Pcm], leading_frames: int) -> Iterator[Pcm]:
    return chain(repeat(_SILENT, leading_frames), frames)


_SILENT: Pcm = np.zeros(FRAME_SAMPLES, np.float32)
_NOTHING: Pcm = np.zeros(0, np.float32)
