"""The phone line of a server whose agent runs in the same process."""

from __future__ import annotations

from rtc_agent.call.registry import CallRegistry
from rtc_agent.clock import Clock
from rtc_agent.media.ice import IceSettings
from rtc_agent.telephony.config import TelephonySettings
from rtc_agent.telephony.local_agent import LocalAgents
from rtc_agent.telephony.peers import GatewayPeers
from rtc_agent.telephony.phone_line import PhoneLine


def create_line(
    settings: TelephonySettings, registry: CallRegistry, ice: IceSettings, clock: Clock
) -> PhoneLine:
    """A line whose calls are the registry's. `start` it once the agent is loaded, and close it
    after the registry, whose calls take their leave through it.

    Raises:
        ConfigError: the settings name no gateway.
    """
    peers = GatewayPeers(ice, settings.codecs, clock)
    return PhoneLine(settings, LocalAgents(registry, peers, clock), clock)
