"""A bad network as a pure function of time: which packets arrive, when, and how often.

The model has no clock and no sockets. Whoever carries the packets asks `Link.carry` when each one
is to be delivered, and can be tested on virtual time. The same seed gives the same network.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from typing import Literal, get_args

from rtc_agent.errors import InvalidRequest

Direction = Literal["up", "down", "both"]


@dataclass(frozen=True, slots=True)
class Impairment:
    """What is wrong with a network, and with the sender at its end."""

    loss: float = 0.0
    """Share of packets lost, 0 … 1."""
    burst: float = 0.0
    """Mean run of lost packets (Gilbert's two-state model); 0 loses each packet by itself."""
    lose_packet: int = 0
    """Lose this one packet of the call, counted from 1; 0 is none."""
    delay_ms: float = 0.0
    """One way. Raised to `jitter_ms` where that is more: no packet arrives before it was sent."""
    jitter_ms: float = 0.0
    """Half width of the uniform spread around the delay. Order is kept, as in a queue."""
    reorder: float = 0.0
    """Share of packets held up by `reorder_ms` more while the next ones pass."""
    reorder_ms: float = 30.0
    duplicate: float = 0.0
    """Share of packets that arrive twice, the copy up to 10 ms after the first."""
    dtx: bool = False
    """The sender stops sending in silence but for a packet every 400 ms."""
    drift_ppm: float = 0.0
    """How much too fast the sender's clock runs, in millionths."""
    direction: Direction = "up"
    """Which way packets suffer: up to the server, down to this caller, or both."""
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("loss", "reorder", "duplicate"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidRequest(f"{name} is a share of packets, from 0 to 1")
        if self.lose_packet < 0:
            raise InvalidRequest("lose_packet is the number of a packet from 1 on, or 0")
        for name in ("delay_ms", "jitter_ms", "reorder_ms"):
            if not 0 <= getattr(self, name) <= 10_000:
                raise InvalidRequest(f"{name} is a time from 0 to 10000 ms")
        if self.burst and not 1 <= self.burst <= 1_000:
            raise InvalidRequest("burst is the mean run of lost packets: 0 (off), or 1 to 1000")
        if self.burst and self.loss > self.burst / (self.burst + 1):
            raise InvalidRequest(f"bursts of {self.burst:g} cannot lose {self.loss:.0%} of packets")
        if not -10_000 <= self.drift_ppm <= 10_000:
            raise InvalidRequest("drift_ppm goes from -10000 to 10000")
        if self.direction not in get_args(Direction):
            raise InvalidRequest("direction is up, down or both")

    @classmethod
    def parse(cls, text: str) -> Impairment:
        """Read `loss=0.02,jitter_ms=30,reorder=0.05`.

        Raises:
            InvalidRequest: an unknown name, a value that is no number, or out of range.
        """
        known = {f.name: f.type for f in fields(cls)}
        given: dict[str, object] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = part.partition("=")
            if name not in known:
                raise InvalidRequest(f"no impairment {name!r}; there are: {', '.join(known)}")
            if name == "direction":
                given[name] = value
                continue
            try:
                number = float(value)
            except ValueError:
                raise InvalidRequest(f"impairment {name!r} needs a number, not {value!r}") from None
            given[name] = {"bool": bool, "int": int}.get(str(known[name]), float)(number)
        return cls(**given)  # type: ignore[arg-type]

    def on(self, direction: Literal["up", "down"]) -> bool:
        """Whether packets that travel this way suffer."""
        return self._suffering and self.direction in (direction, "both")

    @property
    def _suffering(self) -> bool:
        held_up = self.delay_ms > 0 or self.jitter_ms > 0 or self.reorder > 0
        return held_up or self.loss > 0 or self.lose_packet > 0 or self.duplicate > 0

    def mean_delay_ms(self, direction: Literal["up", "down"]) -> float:
        """What a packet that is neither lost nor reordered is held up by, on average."""
        return max(self.delay_ms, self.jitter_ms) if self.on(direction) else 0.0


class Link:
    """One direction of an impaired network."""

    def __init__(self, spec: Impairment, salt: str = "") -> None:
        """`salt` gives two links of one spec different, still repeatable, fates."""
        self._spec = spec
        self._random = random.Random(f"{spec.seed}/{salt}")
        self._losing = False
        self._carried = 0
        self._newest_s = float("-inf")

    def carry(self, sent_s: float) -> tuple[float, ...]:
        """When a packet sent at `sent_s` arrives, in seconds: never, once, or more than once.

        To be asked once a packet, in the order of sending.
        """
        spec, draw = self._spec, self._random
        # Each packet takes the same number of draws, so that changing one setting leaves the
        # others' fates alone.
        fate, spread, overtaken, copied, copy = (draw.random() for _ in range(5))
        self._carried += 1
        if self._lost(fate) or self._carried == spec.lose_packet:
            return ()
        delay_ms = max(spec.delay_ms, spec.jitter_ms)
        arrival_s = sent_s + (delay_ms + spec.jitter_ms * (2 * spread - 1)) / 1_000
        arrival_s = max(arrival_s, self._newest_s)
        if overtaken < spec.reorder:
            arrival_s += spec.reorder_ms / 1_000
        else:
            self._newest_s = arrival_s
        if copied < spec.duplicate:
            return (arrival_s, arrival_s + 0.01 * copy)
        return (arrival_s,)

    def _lost(self, fate: float) -> bool:
        spec = self._spec
        if not spec.burst:
            return fate < spec.loss
        leave = 1 / spec.burst
        enter = spec.loss * leave / (1 - spec.loss) if spec.loss < 1 else 1.0
        self._losing = fate >= leave if self._losing else fate < enter
        return self._losing
