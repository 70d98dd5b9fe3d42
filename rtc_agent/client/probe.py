"""`rtc-agent probe`: how a call to an echo agent sounds, in figures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rtc_agent.client import emodel
from rtc_agent.client.call_client import CallClient, samples_in
from rtc_agent.client.chirps import ProbeSignal
from rtc_agent.client.figures import percentiles
from rtc_agent.client.impair import Impairment
from rtc_agent.client.measurement import Measurement, measure, payloads
from rtc_agent.client.offer import Signaling, SmallWebRtcSignaling
from rtc_agent.client.quality import listening_score
from rtc_agent.client.quality import require as quality_needs
from rtc_agent.client.sources import EncodedSource, PayloadSource, SilentPayload
from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.errors import InvalidRequest
from rtc_agent.media.codecs import PACKET_S, PACKET_SAMPLES, encoder_for, silence
from rtc_agent.media.ice import IceSettings
from rtc_agent.wav import read_wav

LISTEN_ON_S = 2.0
"""How long the echo of the last sound is waited for."""
_PING_EVERY_S = 1.0
_LONGEST_SPEECH_S = 60.0


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """What to measure."""

    url: str
    seconds: float = 30.0
    """Length of the chirps."""
    impairment: Impairment = field(default_factory=Impairment)
    phone: bool = False
    """Speak PCMU at 8 kHz, as a telephone does."""
    speech: Path | None = None
    """A WAV to say after the chirps; its echo is scored by ViSQOL."""
    ice: IceSettings = field(default_factory=IceSettings)
    signaling: Callable[[str], Signaling] = SmallWebRtcSignaling
    """How a server at a URL is offered a call."""
    waits_for_ready: bool = True
    """False for servers that do not say when their agent listens."""
    settle_s: float = 1.0
    """Between that moment, or the connection, and the first sound."""

    def __post_init__(self) -> None:
        if not 2 <= self.seconds <= 86_400:
            raise InvalidRequest("A probe takes from 2 seconds to a day.")


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What was measured."""

    order: ProbeOrder
    call_id: str | None
    connect_ms: float
    ready_ms: float
    measured: Measurement
    network_rtt_ms: tuple[float, ...]
    """Round trips of pings on the data channel; nothing impairs those."""
    quality_mos: float | None
    lost_at_s: float | None
    """When the first packet on its way up was lost on purpose, in seconds of the signal."""
    caller_lateness_ms: float
    """How late this process sent a packet at most: above some ms it disturbs its own figures."""
    ended: str

    @property
    def ok(self) -> bool:
        """Whether the call lasted and an echo was heard."""
        return self.ended == "hangup" and bool(self.measured.delays_ms)

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        measured = self.measured
        uplink_concealed_ms = measured.server.get("concealed_ms", 0.0)
        return {
            "mouth_to_ear_ms": percentiles(measured.delays_ms),
            "underruns": len(measured.dropouts),
            "concealed_ms": round(measured.concealed_ms + uplink_concealed_ms, 1),
            "lost_chirps": measured.lost_chirps,
            "send_to_arrival_ms": percentiles(d - PACKET_S * 1e3 for d in measured.delays_ms),
            "silent_ms": round(sum(hole.length_s for hole in measured.dropouts) * 1e3, 1),
            "network_rtt_ms": percentiles(self.network_rtt_ms),
            "split_ms": self._split(),
            "downlink": {
                "packets": measured.received_packets,
                "lost": measured.lost_packets,
                "duplicates": measured.duplicates,
                "concealed_ms": round(measured.concealed_ms, 1),
                "lateness_ms": percentiles(late * 1e3 for _, late in measured.arrivals_s),
            },
            "server": measured.server,
            "e_model": self._e_model(),
            "quality_mos": None if self.quality_mos is None else round(self.quality_mos, 2),
            "codec": "PCMU" if self.order.phone else "opus",
            "caller_lateness_ms": round(self.caller_lateness_ms, 1),
            "connect_ms": round(self.connect_ms, 1),
            "ready_ms": round(self.ready_ms, 1),
            "call_id": self.call_id,
            "ended": self.ended,
        }

    def _split(self) -> dict[str, float] | None:
        """Where the median delay goes: filling a packet, the network to the server and back
        (half of a ping each, and what was laid over it), and the rest, in the server: its
        buffers, the agent's frame, and both codecs' look-ahead."""
        whole_ms = percentiles(self.measured.delays_ms)["p50"]
        rtt_ms = percentiles(self.network_rtt_ms)["p50"]
        if whole_ms is None or rtt_ms is None:
            return None
        packet_ms = PACKET_S * 1e3
        up_ms = rtt_ms / 2 + self.order.impairment.mean_delay_ms("up")
        down_ms = rtt_ms / 2 + self.order.impairment.mean_delay_ms("down")
        return {
            "packet": packet_ms,
            "network_up": round(up_ms, 1),
            "server": round(whole_ms - packet_ms - up_ms - down_ms, 1),
            "network_down": round(down_ms, 1),
        }

    def _e_model(self) -> dict[str, float] | None:
        """The rating of each half of the loop: half its delay, and the worse way's loss."""
        delay_ms = percentiles(self.measured.delays_ms)["p50"]
        if delay_ms is None:
            return None
        measured = self.measured
        down = _share(measured.lost_packets, measured.received_packets)
        server = measured.server
        up = _share(server.get("packets_lost", 0), server.get("packets_received", 0))
        loss_percent = 100 * max(up, down)
        r = emodel.rating(delay_ms / 2, loss_percent)
        return {
            "r": round(r, 1),
            "mos": round(emodel.mos(r), 2),
            "one_way_ms": round(delay_ms / 2, 1),
            "loss_percent": round(loss_percent, 2),
        }


async def probe(order: ProbeOrder) -> ProbeReport:
    """Call, chirp, listen, and hang up.

    Raises:
        BadAudioFile: the speech cannot be read.
        MissingDependency: speech is to be scored and ViSQOL is not installed.
        ServerUnreachable, CallRefused, CallFailed: see `CallClient`.
    """
    impairment = order.impairment
    codec = "PCMU" if order.phone else "opus"
    # A pilot would never let a sender pause.
    signal = ProbeSignal(SAMPLE_RATE, pilot=not impairment.dtx)
    encoder = encoder_for(codec)
    # Encoded beforehand, so that packets leave on time.
    chirps = payloads(signal, order.seconds, encoder, dtx=impairment.dtx)
    speech = None
    if order.speech is not None:
        quality_needs()
        speech = _Speech.encoded(read_wav(order.speech, _LONGEST_SPEECH_S), codec, impairment.dtx)
    quiet = SilentPayload(encoder_for(codec).encode(silence(PACKET_SAMPLES)))
    spoken_s: float | None = None
    async with CallClient(
        order.signaling(order.url), codec=codec, ice=order.ice, quiet=quiet, impairment=impairment
    ) as client:
        await client.connect()
        if order.waits_for_ready:
            await client.wait_ready()
        pings = _Pings(client)
        pinging = asyncio.ensure_future(pings.run())
        try:
            await client.wait_until(client.clock.now() + order.settle_s)
            origin_s = client.play(PayloadSource(chirps))
            lasted = await client.wait_said()
            lasted = lasted and await client.wait_until(client.clock.now() + LISTEN_ON_S)
            if lasted and speech is not None:
                spoken_s = await speech.say(client)
        finally:
            pinging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await pinging
    measured = await asyncio.to_thread(
        measure,
        client,
        signal,
        origin_s,
        order.seconds,
        trailing_s=LISTEN_ON_S,
        drift_ppm=impairment.drift_ppm,
    )
    quality = None
    if speech is not None and spoken_s is not None:
        quality = await asyncio.to_thread(speech.score, client, spoken_s)
    lost_s = client.uplink.first_lost_s if client.uplink else None
    return ProbeReport(
        order=order,
        lost_at_s=None if lost_s is None else lost_s - origin_s,
        call_id=client.call_id,
        connect_ms=client.connect_ms or 0.0,
        ready_ms=client.ready_ms or 0.0,
        measured=measured,
        network_rtt_ms=pings.round_trips_ms(),
        quality_mos=quality,
        caller_lateness_ms=client.track.worst_lateness_s * 1e3,
        ended=client.ended or "hangup",
    )


@dataclass(frozen=True, slots=True)
class _Speech:
    """Something to say, as sound and as packets."""

    pcm: Pcm
    packets: list[bytes]

    @classmethod
    def encoded(cls, pcm: Pcm, codec: str, dtx: bool) -> _Speech:
        source = EncodedSource([pcm], encoder_for(codec), dtx=dtx)
        return cls(pcm, list(iter(source.next, None)))

    async def say(self, client: CallClient) -> float | None:
        """Say it and listen on; when it began, or None if the call ended meanwhile."""
        origin_s = client.play(PayloadSource(self.packets))
        lasted = await client.wait_said()
        lasted = lasted and await client.wait_until(client.clock.now() + LISTEN_ON_S)
        return origin_s if lasted else None

    def score(self, client: CallClient, origin_s: float) -> float:
        """How well it came back, by ViSQOL. Takes seconds."""
        samples = len(self.pcm) + samples_in(LISTEN_ON_S)
        return listening_score(self.pcm, client.recording(origin_s, samples).read())


class _Pings:
    """Pings on the data channel, and their round trips."""

    def __init__(self, client: CallClient) -> None:
        self._client = client
        self._sent_s: list[float] = []

    async def run(self) -> None:
        """Ping every now and then, for ever."""
        clock = self._client.clock
        while True:
            self._client.send({"type": "ping", "id": len(self._sent_s)})
            self._sent_s.append(clock.now())
            await clock.sleep_until(clock.now() + _PING_EVERY_S)

    def round_trips_ms(self) -> tuple[float, ...]:
        """One for each ping that was answered."""
        return tuple(
            (message.arrival_s - self._sent_s[message.body["id"]]) * 1e3
            for message in self._client.messages
            if message.type == "pong" and message.body.get("id") in range(len(self._sent_s))
        )


def _share(lost: float, received: float) -> float:
    return lost / (lost + received) if lost + received > 0 else 0.0
