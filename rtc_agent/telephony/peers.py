"""Peer connections to the gateway, for agents in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rtc_agent.call.transport import TransportEvents
from rtc_agent.clock import Clock
from rtc_agent.media.ice import IceSettings
from rtc_agent.media.phone_peer import PhonePeer
from rtc_agent.telephony.local_agent import TelephoneEvents


@dataclass(frozen=True, slots=True)
class GatewayPeers:
    """Makes the peers of telephone calls, all with the same ICE settings and codecs."""

    ice: IceSettings
    codecs: Sequence[str]
    clock: Clock

    async def answer(
        self, offer_sdp: str, events: TransportEvents, on_telephone_event: TelephoneEvents
    ) -> tuple[PhonePeer, str]:
        return await PhonePeer.take_offer(
            offer_sdp,
            events=events,
            on_telephone_event=on_telephone_event,
            codecs=self.codecs,
            ice=self.ice,
            clock=self.clock,
        )

    async def offer(
        self, events: TransportEvents, on_telephone_event: TelephoneEvents
    ) -> tuple[PhonePeer, str]:
        return await PhonePeer.make_offer(
            events=events,
            on_telephone_event=on_telephone_event,
            codecs=self.codecs,
            ice=self.ice,
            clock=self.clock,
        )
