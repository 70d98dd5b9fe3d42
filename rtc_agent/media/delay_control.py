"""How far behind the caller a receiver must read, learned from how punctual packets are.

The margin of a tick is the time by which its last packet could have come later and still have been
heard, if the frame had ended with that packet. Margins of the last 12 s, less the delay that the
reader has added since, say what the network needs. Nothing here knows a sender's clock rate: a
clock that runs fast or slow shows as margins that grow or shrink.

The frame is kept ending with a packet, at the least delay at which that packet is in time: to move
by less than a packet would gain nothing. Only while the sender's clock drifts past ours may frames
end anywhere; the margin is then held at what is enough for any place.
"""

from __future__ import annotations

from collections import deque
from math import ceil

from rtc_agent.engine.stepper import FRAME_S, SAMPLE_RATE

SAFETY_S = 0.003
"""The margin kept on a quiet path: an event loop is late by so much now and then."""
SAFETY_SHARE = 0.1
"""And so much of the spread of margins on a path that is not quiet."""
EDGE_S = 2 / SAMPLE_RATE
"""A frame ends so much before the end of its last packet, for rounding to have room."""
MAX_RATE = 0.001
"""Of time stretched: 1.7 cents of pitch, which nobody hears."""
HASTY_RATE = 0.004
"""7 cents, for as long as the reader is several packets off, after an outage."""
GENTLE_RATE = 0.0006
"""Twice the error of the worst crystal."""
WINDOW_TICKS = 150
_QUANTILE = 0.02
_WARM_UP_TICKS = 12
_DRIFT_STEP_S = 0.001
_DRIFT_SHARE = 0.2
"""Margins drift if they moved within the window by the one and this share of their spread."""
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
        self._margins: deque[float] = deque(maxlen=WINDOW_TICKS)
        self._added_s = 0.0
        self._need_s = SAFETY_S
        self._pending_s = 0.0
        self._drifting = False
        self._correcting = False
        self._loss = 0.0
        self._look_ahead = False

    @property
    def added_s(self) -> float:
        """Delay added to the reader since the start, in seconds; negative if taken away."""
        return self._added_s

    @property
    def need_s(self) -> float:
        """The margin that this path needs."""
        return self._need_s

    @property
    def loss(self) -> float:
        """The share of packets lost of late."""
        return self._loss

    def added(self, seconds: float) -> None:
        """The reader fell back (or, negative, was set forward) by so much, unasked."""
        self._added_s += seconds
        self._pending_s = 0.0

    def corrected(self, seconds: float) -> None:
        """The reader fell back (or, negative, caught up) by so much, as it was asked to."""
        self._added_s += seconds
        if self._pending_s:
            self._pending_s += seconds

    def observe(self, margin_s: float, added_s: float | None = None) -> None:
        """A tick's margin; `added_s` is the added delay it was measured under, if not today's."""
        if margin_s < -_OUTAGE_S:
            return
        under = self._added_s if added_s is None else added_s
        self._margins.append(margin_s - under)

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
        if len(self._margins) < _WARM_UP_TICKS:
            return 0.0
        ordered = sorted(self._margins)
        lowest = ordered[int(len(ordered) * _QUANTILE)]
        spread = ordered[len(ordered) // 2] - lowest
        margin = lowest + self._added_s
        self._need_s = SAFETY_S + SAFETY_SHARE * spread
        if recoverable and self._look_ahead:
            # Where packets wait anyway, the next one mostly does too.
            self._need_s += max(0.0, packet_s - spread)
        was_drifting, self._drifting = self._drifting, self._drifts(spread)
        if self._drifting:
            self._pending_s = 0.0
            return margin - self._need_s - packet_s
        if was_drifting:
            self._correcting = False
        if not self._pending_s:
            self._pending_s = self._next_move(margin, unread_s, packet_s)
        return self._pending_s

    def _next_move(self, margin: float, unread_s: float, packet_s: float) -> float:
        slack = margin - unread_s
        if slack < self._need_s / 2:
            short = ceil((self._need_s / 2 - slack) / packet_s)
            return unread_s - short * packet_s - EDGE_S
        if (spare := slack - self._need_s - _ROOM_S) >= packet_s:
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
        """Whether margins clearly move one way."""
        count = len(self._margins)
        block = count // 4
        margins = list(self._margins)
        old = sorted(margins[:block])[block // 10]
        new = sorted(margins[-block:])[block // 10]
        return abs(new - old) > _DRIFT_STEP_S + _DRIFT_SHARE * spread_s
