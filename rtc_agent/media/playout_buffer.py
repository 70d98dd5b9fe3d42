"""Agent audio between the ticks that make it and the packets that carry it."""

from __future__ import annotations

from collections import deque

import numpy as np

from rtc_agent.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE, Pcm
from rtc_agent.media.codecs import PACKET_S, PACKET_SAMPLES
from rtc_agent.media.cushion import CushionController
from rtc_agent.media.silence_edit import shorten

DEFAULT_CUSHION_S = 0.020
MAX_QUEUED = SAMPLE_RATE
"""One second: what is pushed beyond it makes the oldest give way."""
MAX_BEHIND = 2 * FRAME_SAMPLES + 2 * PACKET_SAMPLES
"""Audio that comes frame by frame is never further behind than this: two frames and a cushion."""
MAX_CUSHION_S = 0.080
_CUSHION_STEP_S = 0.010
"""Added for the next start whenever the queue ran dry."""
_LATE_S = 0.150
"""Audio that comes so soon after the queue ran dry was late; later, there was none."""
_MAX_TRIM = SAMPLE_RATE // 50
_FADE = SAMPLE_RATE // 200
"""5 ms: an ending that was not planned is faded, not cut."""


class PlayoutBuffer:
    """A queue of samples with a time at which the first of them is due.

    After it ran empty, the next audio waits for the cushion to form again, so that one late tick
    makes one gap and not one a frame. Audio that has fallen behind catches up where it is silent.
    """

    def __init__(self, cushion_s: float = DEFAULT_CUSHION_S, turn_s: float = 0.0) -> None:
        """`turn_s` is how long after other calls' packets this call's are to be sent."""
        self.cushion_s = cushion_s
        self._turn_s = turn_s
        self.control = CushionController(turn_s)
        self.underruns = 0
        self.dropped = 0
        """Samples given up because too many were queued."""
        self.starts = 0
        """Times that audio began, after nothing was queued."""
        self.trimmed = 0
        """Silent samples left out to catch up."""
        self._parts: deque[Pcm] = deque()
        self._queued = 0
        self._due_s: float | None = None
        self._ending = False
        """Emptied on purpose: running out is no underrun."""
        self._ran_dry_s = -np.inf
        self._last = np.zeros(_FADE, np.float32)

    @property
    def queued(self) -> int:
        """Samples waiting."""
        return self._queued

    @property
    def due_s(self) -> float | None:
        """When the first queued sample is to be sent; None while nothing plays."""
        return self._due_s

    def push(self, pcm: Pcm, now_s: float) -> None:
        """Queue any number of samples at 24 kHz."""
        if not len(pcm):
            return
        self._ending = False
        pcm = np.asarray(pcm, np.float32)
        if self._due_s is None:
            self._start(now_s)
        else:
            packets_before = self._queued // PACKET_SAMPLES
            self.control.observe(self._due_s + packets_before * PACKET_S - now_s)
        excess = round(self.control.error_s() * SAMPLE_RATE)
        if excess > PACKET_SAMPLES:
            pcm = self._trim(pcm, min(excess, _MAX_TRIM))
        self._parts.append(pcm)
        self._queued += len(pcm)
        bound = MAX_BEHIND if len(pcm) <= FRAME_SAMPLES else MAX_QUEUED
        if self._queued > bound:
            self._give_up(self._queued - bound)

    def _start(self, now_s: float) -> None:
        """Audio begins, or begins again after a gap."""
        late_s = now_s - self._ran_dry_s
        if late_s < _LATE_S:
            self.control.observe(-late_s)
            self.control.added(self.cushion_s + late_s)
        else:
            self.control = CushionController(self._turn_s)
            self.control.observe(self.cushion_s)
        self._ran_dry_s = -np.inf
        self._due_s = now_s + self.cushion_s
        self.starts += 1

    def shift(self, seconds: float) -> None:
        """What is queued is sent so much later (or, negative, sooner)."""
        if self._due_s is not None:
            self._due_s += seconds
        self.cushion_s = max(0.0, self.cushion_s + seconds)
        self.control.added(seconds)

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
            self._due_s = None
            if not self._ending:
                self.underruns += 1
                self._ran_dry_s = slot_s
                self.cushion_s = min(self.cushion_s + _CUSHION_STEP_S, MAX_CUSHION_S)
            self._fade_out(out, lead + len(got))
        else:
            self._last = out[-_FADE:]
        return out

    def pass_by(self, packets: int) -> None:
        """The time of so many packets went by unused: what was due in it is given up."""
        if self._due_s is None:
            return
        self._due_s += packets * PACKET_S
        if excess := min(packets * PACKET_SAMPLES, self._queued):
            self._give_up(excess)
        self.control.added(packets * PACKET_S)

    def clear(self) -> None:
        """Forget what is queued but for 5 ms, faded out."""
        tail = self._take(min(_FADE, self._queued))
        self._parts.clear()
        self._queued = 0
        if len(tail):
            self._parts.append(tail * np.linspace(1, 0, len(tail), dtype=np.float32))
            self._queued = len(tail)
        self._ending = True

    def _trim(self, pcm: Pcm, most: int) -> Pcm:
        shorter = shorten(pcm, most)
        cut = len(pcm) - len(shorter)
        self.trimmed += cut
        self.control.added(-cut / SAMPLE_RATE)
        return shorter

    def _give_up(self, excess: int) -> None:
        """Drop the oldest, cross-fading over the seam."""
        self.dropped += excess
        self.control.added(-excess / SAMPLE_RATE)
        gone = self._take(excess)
        fade = min(_FADE, excess, self._queued)
        ramp = np.linspace(0, 1, fade, dtype=np.float32)
        head = gone[:fade] * (1 - ramp) + self._take(fade) * ramp
        self._parts.appendleft(np.asarray(head, np.float32))
        self._queued += fade

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
