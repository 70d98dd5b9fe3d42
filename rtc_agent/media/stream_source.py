"""Caller audio that comes over a reliable stream: in order, without loss, late at times.

Such audio comes in blocks as long as a frame, so that what RTP's receive path takes for jitter is
only the blocks' length. Here nothing is guessed: a frame is taken when there is one, a missing end
is concealed, and what that leaves waiting is the cushion against the next lateness.
"""

from __future__ import annotations

import numpy as np

from rtc_agent.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE, Pcm
from rtc_agent.media.codecs import AudioDecoder, silence
from rtc_agent.media.opus import CodecError

_MS = SAMPLE_RATE // 1000
MAX_BACKLOG = 160 * _MS
"""Two frames: more never waits behind a frame that was taken."""
CONCEALED = 100 * _MS
"""So much missing audio is concealed; a longer gap is silence."""
PAUSE = 200 * _MS
"""After so much missing audio the caller has paused: the next frame is taken when it is whole."""
LOOK_BACK_FRAMES = 125
"""Ten seconds: what waited all that time is more cushion than this connection needs."""
SPARE = 20 * _MS


class StreamSource:
    """The `FrameSource` of one connection. Single-threaded; nothing in it waits."""

    def __init__(self, decoder: AudioDecoder) -> None:
        self._decoder = decoder
        self._waiting = np.empty(0, np.float32)
        self._flowing = False
        self._missing = 0
        self._least = MAX_BACKLOG
        self._looked = 0
        self._reserved: Pcm | None = None
        self._put_back = False
        self.packets = 0
        self.undecodable = 0
        self.concealed = 0
        """Samples made up for audio that was late."""
        self.dropped = 0
        """Samples given up because too many waited."""

    @property
    def waiting(self) -> int:
        """Samples that no frame has taken."""
        return len(self._waiting)

    def push(self, payload: bytes) -> None:
        """Take in the next packet."""
        self.packets += 1
        try:
            pcm = self._decoder.decode(payload)
        except CodecError:
            self.undecodable += 1
            return
        self._waiting = np.concatenate([self._waiting, pcm])
        self._drop(len(self._waiting) - MAX_BACKLOG - FRAME_SAMPLES)

    def reserve(self) -> Pcm:
        if self._reserved is None or not self._put_back:
            self._reserved = self._take()
        self._put_back = False
        return self._reserved

    def commit(self) -> None:
        self._reserved = None

    def rollback(self) -> None:
        self._put_back = self._reserved is not None

    def skip(self) -> None:
        if self._put_back:
            self._put_back, self._reserved = False, None
        elif self._flowing:
            self._drop(min(FRAME_SAMPLES, len(self._waiting)))

    def _take(self) -> Pcm:
        if not self._flowing and len(self._waiting) < FRAME_SAMPLES:
            return silence(FRAME_SAMPLES)
        self._flowing = True
        frame, self._waiting = self._waiting[:FRAME_SAMPLES], self._waiting[FRAME_SAMPLES:]
        short = FRAME_SAMPLES - len(frame)
        if short:
            return np.concatenate([frame, self._stand_in(short)])
        self._missing = 0
        self._shed()
        return frame

    def _stand_in(self, samples: int) -> Pcm:
        conceal = self._missing < CONCEALED
        self._missing += samples
        self._least, self._looked = MAX_BACKLOG, 0
        if self._missing >= PAUSE:
            self._flowing = False
        if not conceal:
            return silence(samples)
        self.concealed += samples
        return self._decoder.conceal(samples)

    def _shed(self) -> None:
        """Give up what has waited for nothing."""
        self._least = min(self._least, len(self._waiting))
        self._looked += 1
        if self._looked >= LOOK_BACK_FRAMES:
            if self._least > 2 * SPARE:
                self._drop(self._least - SPARE)
            self._least, self._looked = MAX_BACKLOG, 0

    def _drop(self, samples: int) -> None:
        if samples > 0:
            self._waiting = self._waiting[samples:]
            self.dropped += samples
