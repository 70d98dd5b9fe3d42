"""What a probing call shows: delays by chirp, holes in the sound, losses; the same for one call
or for many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from rtc_agent.client.call_client import samples_in
from rtc_agent.client.chirps import Dropout, ProbeSignal, dropouts, locate
from rtc_agent.client.messages import ReceivedMessage, left_out_frames
from rtc_agent.client.packets import PacketLog
from rtc_agent.client.recording import Recording
from rtc_agent.client.sources import EncodedSource
from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media.codecs import AudioEncoder

_ENVELOPE = ("seq", "frame", "t_ms")
_COUNTS = frozenset(
    {
        "packets_received",
        "packets_lost",
        "packets_sent",
        "underruns",
        "concealed_ms",
        "dropped_ms",
    }
)
"""Statistics that only grow."""
PIECE = SAMPLE_RATE
"""Samples made at once: a second."""


@dataclass(frozen=True, slots=True)
class Chirp:
    """One chirp's way."""

    said_s: float
    """Seconds after the signal's beginning, on the caller's clock."""
    mouth_to_ear_ms: float | None
    """From its first sample being said to that sample being heard; None if it was not found.

    A packet is sent when its last sample has been said, so 20 ms of it are the packet's. Heard is
    when the packet with that sample has come: a listener's own buffer and devices come on top."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One call's figures."""

    chirps: tuple[Chirp, ...] = ()
    dropouts: tuple[Dropout, ...] = ()
    """Holes in the returned pilot tone; none where there is no pilot."""
    concealed_ms: float = 0.0
    """Made up by this caller for packets lost on their way to it."""
    received_packets: int = 0
    lost_packets: int = 0
    duplicates: int = 0
    arrivals_s: tuple[tuple[float, float], ...] = ()
    """For each packet its arrival, seconds after the signal's beginning, and how long after the
    earliest possible moment that was."""
    server: dict[str, float] = field(default_factory=dict)
    """The server's last statistics, as far as it sends any; what it counts, since the signal's
    beginning."""
    left_out_frames: int = 0
    """Of 80 ms, that the server says it was too slow for, since the signal's beginning."""

    @property
    def delays_ms(self) -> list[float]:
        return [c.mouth_to_ear_ms for c in self.chirps if c.mouth_to_ear_ms is not None]

    @property
    def lost_chirps(self) -> int:
        return sum(c.mouth_to_ear_ms is None for c in self.chirps)


def payloads(
    signal: ProbeSignal, seconds: float, encoder: AudioEncoder, *, dtx: bool = False
) -> list[bytes]:
    """The signal's first `seconds` as packets, for `PayloadSource`."""

    def pieces() -> Iterator[Pcm]:
        for first in range(0, samples_in(seconds), PIECE):
            yield signal.samples(first, min(PIECE, samples_in(seconds) - first))

    source = EncodedSource(pieces(), encoder, dtx=dtx)
    return list(iter(source.next, None))


class Listener(Protocol):
    """A caller that kept what it heard."""

    @property
    def log(self) -> PacketLog: ...

    @property
    def messages(self) -> list[ReceivedMessage]: ...

    def recording(self, origin_s: float, samples: int) -> Recording: ...


def measure(
    client: Listener,
    signal: ProbeSignal,
    origin_s: float,
    seconds: float,
    *,
    trailing_s: float,
    drift_ppm: float = 0.0,
) -> Measurement:
    """Find what of the signal's first `seconds`, said from `origin_s` on, came back until
    `trailing_s` after its end."""
    recording = client.recording(origin_s, samples_in(seconds + trailing_s))
    pcm = recording.read()
    chirps = []
    places = locate(pcm, signal, signal.count(seconds))
    for index, place_s in enumerate(places):
        said_s = signal.start_s(index) / (1 + drift_ppm * 1e-6)
        delay_ms = None
        if place_s is not None:
            heard_s = recording.heard_at(place_s)
            # Of a concealed chirp the beginning can be lost: it counts as heard when due.
            delay_ms = ((heard_s or origin_s + place_s) - origin_s - said_s) * 1e3
        chirps.append(Chirp(said_s, delay_ms))
    heard = recording.heard
    return Measurement(
        chirps=tuple(chirps),
        dropouts=tuple(dropouts(pcm, signal, places)),
        concealed_ms=heard.concealed_ms,
        received_packets=heard.packets,
        lost_packets=heard.lost_packets,
        duplicates=client.log.duplicates,
        arrivals_s=tuple(recording.lateness()),
        server=_statistics(client.messages, origin_s),
        left_out_frames=left_out_frames(client.messages, origin_s),
    )


def _statistics(messages: list[ReceivedMessage], origin_s: float) -> dict[str, float]:
    """The numbers in the newest `stats` message; counts without those of the last one before
    `origin_s`: what befell a call while others were being set up is no part of what is measured."""
    told = [message for message in messages if message.type == "stats"]
    if not told:
        return {}
    before = next((m.body for m in reversed(told) if m.arrival_s < origin_s), {})
    return {
        name: round(value - (before.get(name, 0) if name in _COUNTS else 0), 3)
        for name, value in told[-1].body.items()
        if isinstance(value, int | float) and name not in _ENVELOPE
    }
