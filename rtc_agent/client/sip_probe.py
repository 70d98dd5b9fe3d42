"""`rtc-agent probe sip:…`: how a telephone call to an echo agent sounds, in figures."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np

from rtc_agent.client.chirps import ProbeSignal
from rtc_agent.client.figures import percentiles
from rtc_agent.client.measurement import Measurement, measure, payloads
from rtc_agent.client.sip_phone import SipPhone
from rtc_agent.client.sources import PayloadSource, SilentPayload
from rtc_agent.engine.stepper import SAMPLE_RATE
from rtc_agent.errors import InvalidRequest
from rtc_agent.media.codecs import PACKET_S, PACKET_SAMPLES, encoder_for, silence

LISTEN_ON_S = 2.0
"""How long the echo of the last sound is waited for."""
SETTLE_S = 1.0
"""Between the answer and the first measured sound."""


@dataclass(frozen=True, slots=True)
class SipProbeOrder:
    """What to measure."""

    uri: str
    seconds: float = 30.0
    codec: str = "PCMU"

    def __post_init__(self) -> None:
        if not 2 <= self.seconds <= 86_400:
            raise InvalidRequest("A probe takes from 2 seconds to a day.")


@dataclass(frozen=True, slots=True)
class SipProbeReport:
    """What was measured."""

    order: SipProbeOrder
    connect_ms: float
    measured: Measurement
    intervals_ms: tuple[float, ...]
    """Between one packet's arrival and the next one's."""
    caller_lateness_ms: float
    ended: str

    @property
    def ok(self) -> bool:
        """Whether the call lasted and an echo was heard."""
        return self.ended == "hangup" and bool(self.measured.delays_ms)

    def as_dict(self) -> dict[str, object]:
        """For JSON; the names are those of the WebRTC probe."""
        measured = self.measured
        return {
            "mouth_to_ear_ms": percentiles(measured.delays_ms),
            "underruns": len(measured.dropouts),
            "concealed_ms": round(measured.concealed_ms, 1),
            "lost_chirps": measured.lost_chirps,
            "send_to_arrival_ms": percentiles(d - PACKET_S * 1e3 for d in measured.delays_ms),
            "silent_ms": round(sum(hole.length_s for hole in measured.dropouts) * 1e3, 1),
            "downlink": {
                "packets": measured.received_packets,
                "lost": measured.lost_packets,
                "duplicates": measured.duplicates,
                "interval_ms": percentiles(self.intervals_ms),
            },
            "codec": self.order.codec,
            "caller_lateness_ms": round(self.caller_lateness_ms, 1),
            "connect_ms": round(self.connect_ms, 1),
            "ended": self.ended,
        }


async def probe(order: SipProbeOrder) -> SipProbeReport:
    """Call, chirp, listen, and hang up.

    Raises:
        InvalidRequest: that is no SIP address.
        ServerUnreachable, CallRefused, CallFailed: see `SipPhone.connect`.
    """
    signal = ProbeSignal(SAMPLE_RATE)
    # Encoded beforehand, so that packets leave on time.
    said = payloads(signal, order.seconds, encoder_for(order.codec))
    quiet = SilentPayload(encoder_for(order.codec).encode(silence(PACKET_SAMPLES)))
    async with SipPhone(order.uri, codec=order.codec, quiet=quiet) as phone:
        await phone.connect()
        origin_s = phone.clock.now()
        if await phone.wait_until(origin_s + SETTLE_S):
            origin_s = phone.play(PayloadSource(said))
            if await phone.wait_said():
                await phone.wait_until(phone.clock.now() + LISTEN_ON_S)
    measured = await asyncio.to_thread(
        measure, phone, signal, origin_s, order.seconds, trailing_s=LISTEN_ON_S
    )
    arrivals_s = sorted(p.arrival_s for p in phone.log.in_order() if p.arrival_s >= origin_s)
    return SipProbeReport(
        order=order,
        connect_ms=phone.connect_ms or 0.0,
        measured=measured,
        intervals_ms=tuple(float(gap) for gap in np.diff(arrivals_s) * 1e3),
        caller_lateness_ms=phone.track.worst_lateness_s * 1e3,
        ended=phone.ended or "hangup",
    )
