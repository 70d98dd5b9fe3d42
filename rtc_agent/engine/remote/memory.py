"""Frames of every slot in memory that the engine's process and the media processes share.

Each slot has a ring of caller frames, written by the process that holds the call, and one of agent
frames, written by the engine. An entry carries the tick it belongs to, written after its samples,
so a reader that finds the tick finds the whole frame; and a caller's the lease under which its
session has the slot, for a process that was not scheduled may not know yet that it has it no more.
"""

from __future__ import annotations

import mmap

import numpy as np

from rtc_agent.engine.shared_memory import create_unnamed
from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm

RING = 4
"""Frames a ring holds: the one in hand, and three for a process that is scheduled late."""
NO_TICK = -1
_ENTRY = np.dtype([("tick", np.int64), ("lease", np.int64), ("pcm", np.float32, FRAME_SAMPLES)])


def create(slots: int) -> int:
    """A file descriptor of memory for so many slots."""
    fd = create_unnamed("rtc-agent-frames", 2 * slots * RING * _ENTRY.itemsize)
    frames = FrameMemory(fd, slots)
    for slot in range(slots):
        frames.clear(slot)
    frames.close()
    return fd


class FrameMemory:
    """One process's view of the shared frames."""

    def __init__(self, fd: int, slots: int) -> None:
        self._map = mmap.mmap(fd, 2 * slots * RING * _ENTRY.itemsize)
        entries = np.frombuffer(self._map, _ENTRY).reshape(2, slots, RING)
        self._caller, self._agent = entries

    def put_caller(self, slot: int, tick: int, lease: int, pcm: Pcm) -> None:
        _put(self._caller[slot], tick, pcm, lease)

    def caller(self, slot: int, tick: int, lease: int) -> Pcm | None:
        """A copy of the caller's frame for that tick; None if it has not been written under that
        lease."""
        ring = self._caller[slot]
        frame = _get(ring, tick)
        return frame if ring["lease"][tick % RING] == lease else None

    def put_agent(self, slot: int, tick: int, pcm: Pcm) -> None:
        _put(self._agent[slot], tick, pcm)

    def agent(self, slot: int, tick: int) -> Pcm | None:
        """A copy of the agent's frame of that tick; None if it has been overwritten since."""
        return _get(self._agent[slot], tick)

    def clear(self, slot: int) -> None:
        """Forget both rings: the next session must not find a frame of the last."""
        for ring in (self._caller[slot], self._agent[slot]):
            ring["tick"] = NO_TICK
            ring["pcm"] = 0

    def close(self) -> None:
        del self._caller, self._agent
        self._map.close()


def _put(
    ring: np.ndarray[tuple[int], np.dtype[np.void]], tick: int, pcm: Pcm, lease: int = 0
) -> None:
    at = tick % RING
    ring["tick"][at] = NO_TICK
    ring["lease"][at] = lease
    ring["pcm"][at] = pcm
    ring["tick"][at] = tick


def _get(ring: np.ndarray[tuple[int], np.dtype[np.void]], tick: int) -> Pcm | None:
    at = tick % RING
    if ring["tick"][at] != tick:
        return None
    pcm: Pcm = ring["pcm"][at].copy()
    return pcm if ring["tick"][at] == tick else None
