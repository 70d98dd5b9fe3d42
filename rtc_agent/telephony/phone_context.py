"""What a telephone call is given: its handle at the gateway, and what all calls of a line share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from rtc_agent.clock import Clock
from rtc_agent.protocol.janus import Jsep, PluginEvent
from rtc_agent.telephony.agent_side import AgentSide
from rtc_agent.telephony.config import TelephonySettings
from rtc_agent.telephony.records import RecordSink

if TYPE_CHECKING:
    from rtc_agent.telephony.phone_call import PhoneCall


class SipHandle(Protocol):
    """The gateway's handle that carries the call."""

    async def ask(self, body: dict[str, Any], jsep: Jsep | None = None) -> PluginEvent:
        """Send a request and wait for the event that answers it."""
        ...

    async def tell(self, body: dict[str, Any], jsep: Jsep | None = None) -> None:
        """Send a request that may stay without an answer."""
        ...


@dataclass(frozen=True, slots=True)
class PhoneContext:
    """What every call of a line shares."""

    settings: TelephonySettings
    agents: AgentSide
    clock: Clock
    record: RecordSink
    on_ended: Callable[[PhoneCall], None]
    wall_time: Callable[[], datetime] = lambda: datetime.now(UTC)
