"""What the two stages share: every slot's codes on their way to code2wav, and its sound back.

Each slot has a ring of code frames, long enough to hold the left context as well, and one of
sound. An entry carries the session's generation and the frame's number, the number written last, so
a reader that finds both finds the whole frame, and never one of another session.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rtc_agent.engine.shared_memory import create_unnamed
from rtc_agent.engine.stages.settings import StageSettings
from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm
from rtc_agent.model.spec import CODEBOOKS

SLACK_FRAMES = 64
"""Frames of codes, beyond what is needed, that code2wav may be behind: five seconds."""
_NONE = -1
_CODES = np.dtype([("frame", np.int64), ("generation", np.int64), ("codes", np.int32, CODEBOOKS)])
_SOUND = np.dtype(
    [
        ("frame", np.int64),
        ("generation", np.int64),
        ("finite", np.int64),
        ("pcm", np.float32, FRAME_SAMPLES),
    ]
)

FrameCodes = npt.NDArray[np.int32]
"""[8] of one frame."""
_Ring = np.ndarray[tuple[int], np.dtype[np.void]]


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes, in frames a slot."""

    slots: int
    codes: int
    sounds: int

    @classmethod
    def of(cls, slots: int, stages: StageSettings) -> Layout:
        chunk = stages.codec_chunk_frames
        return cls(
            slots, stages.codec_left_context_frames + 2 * chunk + SLACK_FRAMES, 2 * chunk + 8
        )

    @property
    def nbytes(self) -> int:
        return self.slots * (self.codes * _CODES.itemsize + self.sounds * _SOUND.itemsize)


@dataclass(frozen=True, slots=True)
class Sound:
    """One decoded frame."""

    pcm: Pcm
    finite: bool


def create(layout: Layout) -> int:
    """A file descriptor of such memory, all of it empty."""
    fd = create_unnamed("rtc-agent-stages", layout.nbytes)
    memory = StageMemory(fd, layout)
    for slot in range(layout.slots):
        memory.clear(slot)
    memory.close()
    return fd


class StageMemory:
    """One stage's view."""

    def __init__(self, fd: int, layout: Layout) -> None:
        self._map = mmap.mmap(fd, layout.nbytes)
        split = layout.slots * layout.codes
        shape = (layout.slots, layout.codes)
        self._codes = np.frombuffer(self._map, _CODES, split).reshape(shape)
        self._sounds = np.frombuffer(
            self._map, _SOUND, layout.slots * layout.sounds, split * _CODES.itemsize
        ).reshape(layout.slots, layout.sounds)

    def put_codes(self, slot: int, generation: int, frame: int, codes: FrameCodes | None) -> None:
        """Write one frame's codes; None: the agent has no frame there yet, only silence."""
        ring = self._codes[slot]
        at = _begin(ring, generation, frame)
        ring["codes"][at] = _NONE if codes is None else codes
        ring["frame"][at] = frame

    def codes(self, slot: int, generation: int, frame: int) -> tuple[bool, FrameCodes | None]:
        """Whether the frame is there, and its codes, as they were put."""
        ring = self._codes[slot]
        if (at := _find(ring, generation, frame)) is None:
            return False, None
        codes: FrameCodes = ring["codes"][at].copy()
        return True, None if codes[0] == _NONE else codes

    def put_sound(self, slot: int, generation: int, frame: int, pcm: Pcm, finite: bool) -> None:
        ring = self._sounds[slot]
        at = _begin(ring, generation, frame)
        ring["pcm"][at] = pcm
        ring["finite"][at] = finite
        ring["frame"][at] = frame

    def has_sound(self, slot: int, generation: int, frame: int) -> bool:
        return _find(self._sounds[slot], generation, frame) is not None

    def sound(self, slot: int, generation: int, frame: int) -> Sound | None:
        """A copy of the frame; None if it is not there, or no longer."""
        ring = self._sounds[slot]
        if (at := _find(ring, generation, frame)) is None:
            return None
        sound = Sound(ring["pcm"][at].copy(), bool(ring["finite"][at]))
        return sound if _find(ring, generation, frame) is not None else None

    def clear(self, slot: int) -> None:
        """Forget both rings."""
        self._codes[slot]["frame"] = _NONE
        self._sounds[slot]["frame"] = _NONE

    def close(self) -> None:
        del self._codes, self._sounds
        self._map.close()


def _begin(ring: _Ring, generation: int, frame: int) -> int:
    at = frame % len(ring)
    ring["frame"][at] = _NONE
    ring["generation"][at] = generation
    return at


def _find(ring: _Ring, generation: int, frame: int) -> int | None:
    at = frame % len(ring)
    found = ring["frame"][at] == frame and ring["generation"][at] == generation
    return at if found else None
