"""What is told of calls to those who keep figures: metrics, records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rtc_agent.call.holder import Holder
from rtc_agent.call.state import EndReason
from rtc_agent.call.transport import TransportStats
from rtc_agent.errors import RtcAgentError


@dataclass(frozen=True, slots=True)
class CallFacts:
    """A call so far; nothing that was said in it, and no address."""

    call_id: str
    state: str
    holder: Holder
    reason: EndReason | None
    voice: str | None
    codec: str | None
    age_s: float
    """Since the offer."""
    connected_s: float | None
    """From the offer to a connection; None: it never had one."""
    prepared_s: float | None
    """From the offer until the agent was ready."""
    live_s: float | None
    """From the offer until both could hear each other."""
    frames: int
    """Of 80 ms, since it went live."""
    skipped_frames: int
    """Left out, because the engine or this process was late."""
    quality: TransportStats | None


class CallWatcher(Protocol):
    """Told about calls, on the event loop; must return at once and not raise."""

    def on_refused(self, error: RtcAgentError) -> None:
        """An offer was refused."""
        ...

    def on_ended(self, facts: CallFacts) -> None:
        """A call that had been answered is over."""
        ...
