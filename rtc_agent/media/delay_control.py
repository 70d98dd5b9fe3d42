"""How far behind the caller a receiver must read, learned from how punctual packets are.

The lag is the time from a place on the caller's timeline to the tick whose frame ends there. What a
tick needed is the least lag at which its last packet would still have been in time, had the frame
ended with that packet. Needs of the last 12 s say what the network asks for; they are the network's
alone, whatever lag the reader had, and however late its ticks were. Nothing here knows a sender's
clock rate: a clock that runs fast or slow shows as needs that shrink or grow.

The frame is kept ending with a packet, at the least delay at which that packet is in time: to move
by less than a packet would gain nothing. Only while the sender's clock drifts past ours may frames
end anywhere; the lag is then held at what is enough for any place.
"""

from __future__ import annotations

from collections import deque
from math import ceil

from rtc_agent.engine.stepper import FRAME_S, SAMPLE_RATE

SAFETY_S = 0.003
"""The lag kept above what is needed: an event loop is late by so much now and then."""
SAFETY_SHARE = 0.1
"""And so much of the spread of needs, on a path that is not quiet."""
EDGE_S = 2 / SAMPLE_RATE
"""A frame ends so much before the end of its last packet, for rounding to have room."""
MAX_RATE = 0.001
"""Of time stretched: 1.7 cents of pitch, which nobody hears."""
HASTY_RATE = 0.004
"""7 cents, for as long as the reader is several packets off, after an outage."""
GENTLE_RATE = 0.0006
"""Twice the error of the worst crystal."""
WINDOW_TICKS = 150
_IGNORED = 0.02
"""Of needs, the greatest: a hitch now and then, of which one is let pass in any case."""
_LAG_TICKS = 12
"""The least lag of so many ticks is the lag; in the others the tick itself was late."""
_WARM_UP_TICKS = 12
_DRIFT_STEP_S = 0.001
_DRIFT_SHARE = 0.2
"""Needs drift if they moved within the window by the one and this share of their spread."""
_OUTAGE_S = 0.1
"""A packet later than this tells of an outage, not of what the path needs."""
_START_S = 0.0015
"""Off a steady path, a correction starts at this error and goes on until `_STOP_S`."""
_STOP_S = 0.0003
_HASTY_S = 0.04
_URGENT_S = 0.005
"""Above it the full rate is used, and silence is cut or lengthened."""
_ROOM_S = 0.002
_LOSS_HIGH = 0.01
_LOSS_LOW = 0.003
_LOSS_MEMORY = 0.005
"""Weight of one packet in the loss ratio: it looks back some four seconds."""


class DelayController:
    """Decides, tick by tick, whether the reader is to fall back or to catch up."""

    def __init__(self) -> None:
        self._needs: deque[float] = deque(maxlen=WINDOW_TICKS)
        self._lags: deque[float] = deque(maxlen=_LAG_TICKS)
        self._moved_s = 0.0
        self._safety_s = SAFETY_S
        self._pending_s = 0.0
        self._drifting = False
        self._correcting = False
        self._loss = 0.0
        self._look_ahead = False

    @property
    def safety_s(self) -> float:
        """The lag kept above what is needed."""
        return self._safety_s

    @property
    def loss(self) -> float:
        """The share of packets lost of late."""
        return self._loss

    @property
    def lag_s(self) -> float:
        """The reader's lag, less the lateness of ticks; 0 before the first."""
        return min(self._lags, default=0.0) + self._moved_s

    def tick(self, lag_s: float) -> None:
        """A frame was read with so much lag."""
        self._lags.append(lag_s - self._moved_s)

    def moved(self, seconds: float) -> None:
        """The lag grew (or, negative, shrank) by so much, unasked."""
        self._moved_s += seconds
        self._pending_s = 0.0

    def corrected(self, seconds: float) -> None:
        """The lag grew (or, negative, shrank) by so much, as it was asked to."""
        self._moved_s += seconds
        if self._pending_s:
            self._pending_s += seconds

    def observe(self, needed_s: float) -> None:
        """The lag that a tick's packets, or one that came too late, needed."""
        if needed_s - self.lag_s <= _OUTAGE_S:
            self._needs.append(needed_s)

    def observe_packet(self, lost: bool) -> None:
        """One packet that was due, here or lost."""
        self._loss += _LOSS_MEMORY * (lost - self._loss)
        if self._loss > _LOSS_HIGH:
            self._look_ahead = True
        elif self._loss < _LOSS_LOW:
            self._look_ahead = False

    def error_s(self, unread_s: float, packet_s: float, *, recoverable: bool) -> float:
        """How much the reader should catch up; negative if it should fall back.

        Args:
            unread_s: how far the last frame's end lay before the end of its last packet.
            packet_s: the caller's packet length.
            recoverable: a lost packet can be had from the one after it, which is worth waiting for
                while packets are being lost.
        """
        if len(self._needs) < _WARM_UP_TICKS:
            return 0.0
        ordered = sorted(self._needs)
        needed = ordered[-1 - max(1, round(len(ordered) * _IGNORED))]
        spread = needed - ordered[len(ordered) // 2]
        margin = self.lag_s - needed
        self._safety_s = SAFETY_S + SAFETY_SHARE * spread
        if recoverable and self._look_ahead:
            # Where packets wait anyway, the next one mostly does too.
            self._safety_s += max(0.0, packet_s - spread)
        was_drifting, self._drifting = self._drifting, self._drifts(spread)
        if self._drifting:
            self._pending_s = 0.0
            return margin - self._safety_s - packet_s
        if was_drifting:
            self._correcting = False
        if not self._pending_s:
            self._pending_s = self._next_move(margin, unread_s, packet_s)
        return self._pending_s

    def _next_move(self, margin: float, unread_s: float, packet_s: float) -> float:
        slack = margin - unread_s
        if slack < self._safety_s / 2:
            short = ceil((self._safety_s / 2 - slack) / packet_s)
            return unread_s - short * packet_s - EDGE_S
        if (spare := slack - self._safety_s - _ROOM_S) >= packet_s:
            return int(spare / packet_s) * packet_s
        if unread_s > 4 * EDGE_S:
            return unread_s - EDGE_S
        return 0.0

    def rate(self, error_s: float) -> float:
        """The share by which to read faster (positive) or slower during the next frame."""
        size = abs(error_s)
        limit = MAX_RATE if size > _URGENT_S else GENTLE_RATE
        if size > _HASTY_S:
            limit = HASTY_RATE
        if not self._drifting:
            return max(-limit, min(limit, error_s / FRAME_S))
        self._correcting = size > (_STOP_S if self._correcting else _START_S)
        if not self._correcting:
            return 0.0
        return limit if error_s > 0 else -limit

    @staticmethod
    def urgent(error_s: float) -> bool:
        """Large enough an error to be corrected in the next silence at once."""
        return abs(error_s) > _URGENT_S

    def _drifts(self, spread_s: float) -> bool:
        """Whether needs clearly move one way."""
        count = len(self._needs)
        block = count // 4
        needs = list(self._needs)
        old = sorted(needs[:block])[block * 9 // 10]
        new = sorted(needs[-block:])[block * 9 // 10]
        return abs(new - old) > _DRIFT_STEP_S + _DRIFT_SHARE * spread_s
