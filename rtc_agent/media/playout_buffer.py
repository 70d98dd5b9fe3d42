"""Agent audio between the ticks that make it and the packets that carry it."""

from __future__ import annotations

from collections import deque

import numpy as np

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media.codecs import PACKET_S, PACKET_SAMPLES

DEFAULT_CUSHION_S = 0.020
MAX_QUEUED = SAMPLE_RATE
"""One second: what is pushed beyond it makes the oldest give way."""
_FADE = SAMPLE_RATE // 200
"""5 ms: an ending that was not planned is faded, not cut."""


class PlayoutBuffer:
    """A queue of samples with a time at which the first of them is due.

    After it ran empty, the next audio waits for the cushion to form again, so that one late tick
    makes one gap and not one a frame.
    """

    def __init__(self, cushion_s: float = DEFAULT_CUSHION_S) -> None:
        self.cushion_s = cushion_s
        self.underruns = 0
        self.dropped = 0
        """Samples given up because too many were queued."""
        self._parts: deque[Pcm] = deque()
        self._queued = 0
        self._due_s: float | None = None
        self._ending = False
        """Emptied on purpose: running out is no underrun."""
        self._last = np.zeros(_FADE, np.float32)

    @property
    def queued(self) -> int:
        """Samples waiting."""
        return self._queued

    @property
    def due_s(self) -> float | None:
        """When the first queued sample is to be played; None while nothing plays."""
        return self._due_s

    def push(self, pcm: Pcm, now_s: float) -> None:
        """Queue any number of samples at 24 kHz."""
        if not len(pcm):
            return
        self._ending = False
        if self._due_s is None:
            self._due_s = now_s + self.cushion_s
        self._parts.append(np.asarray(pcm, np.float32))
        self._queued += len(pcm)
        if self._queued > MAX_QUEUED:
            excess = self._queued - MAX_QUEUED
            self.dropped += excess
            self._take(excess)

    def pop(self, slot_s: float) -> Pcm:
        """The [PACKET_SAMPLES] of the packet that is sent at `slot_s`; silence if none are due."""
        if self._due_s is None:
            return np.zeros(PACKET_SAMPLES, np.float32)
        lead = round((self._due_s - slot_s) * SAMPLE_RATE)
        lead = min(max(lead, 0), PACKET_SAMPLES)
        wanted = PACKET_SAMPLES - lead
        if wanted == 0:
            return np.zeros(PACKET_SAMPLES, np.float32)
        got = self._take(min(wanted, self._queued))
        out = np.zeros(PACKET_SAMPLES, np.float32)
        out[lead : lead + len(got)] = got
        self._due_s = slot_s + PACKET_S
        if len(got) < wanted:
            self.underruns += not self._ending
            self._due_s = None
            self._fade_out(out, lead + len(got))
        else:
            self._last = out[-_FADE:]
        return out

    def clear(self) -> None:
        """Forget what is queued but for 5 ms, faded out."""
        tail = self._take(min(_FADE, self._queued))
        self._parts.clear()
        self._queued = 0
        if len(tail):
            self._parts.append(tail * np.linspace(1, 0, len(tail), dtype=np.float32))
            self._queued = len(tail)
        self._ending = True

    def _take(self, samples: int) -> Pcm:
        taken: list[Pcm] = []
        left = samples
        while left > 0:
            part = self._parts.popleft()
            if len(part) > left:
                self._parts.appendleft(part[left:])
                part = part[:left]
            taken.append(part)
            left -= len(part)
        self._queued -= samples
        return np.concatenate(taken) if taken else np.empty(0, np.float32)

    def _fade_out(self, out: Pcm, end: int) -> None:
        """Let the sound end softly at `end`: over its last samples, or into the gap if it is cut
        at a packet's edge."""
        if end >= _FADE:
            out[end - _FADE : end] *= np.linspace(1, 0, _FADE, dtype=np.float32)
        elif end == 0:
            out[:_FADE] = self._last[::-1] * np.linspace(1, 0, _FADE, dtype=np.float32)
        self._last = np.zeros(_FADE, np.float32)
