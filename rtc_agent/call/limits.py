"""What ends a call without anybody hanging up, as one pure decision."""

from __future__ import annotations

from dataclasses import dataclass

from rtc_agent.call.state import EndReason


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits in seconds; `idle_s` and `call_s` of 0 do not limit."""

    connect_s: float = 15
    vanished_s: float = 8
    idle_s: float = 300
    call_s: float = 3_600
    warning_s: float = 30
    reconnect_s: float = 0
    """How long a call whose connection was lost is kept for its caller; 0: not at all."""


@dataclass(frozen=True, slots=True)
class CallTimes:
    """How long things have been as they are, in seconds."""

    since_offer: float
    connected: bool
    silent: float
    """Since anything arrived from the peer."""
    live: float | None
    """Since the call went live; None before."""
    unspoken: float
    """Since the caller last spoke, or since the call went live."""
    lost: float | None = None
    """Since the connection was lost; None while there is one."""


def breached(limits: CallLimits, times: CallTimes) -> EndReason | None:
    """Which limit, if any, has ended the call."""
    if times.lost is not None:
        return EndReason.CONNECTION_FAILED if times.lost >= limits.reconnect_s else None
    if not times.connected:
        return EndReason.CONNECT_TIMEOUT if times.since_offer >= limits.connect_s else None
    if times.silent >= limits.vanished_s:
        return EndReason.PEER_VANISHED
    if times.live is None:
        return None
    if limits.call_s and times.live >= limits.call_s:
        return EndReason.CALL_LIMIT
    if limits.idle_s and times.unspoken >= limits.idle_s:
        return EndReason.IDLE
    return None


def approaching(limits: CallLimits, times: CallTimes) -> dict[EndReason, float]:
    """Limits that will end the call within `warning_s`, and the seconds left to each."""
    if times.live is None:
        return {}
    left = {}
    if limits.call_s:
        left[EndReason.CALL_LIMIT] = limits.call_s - times.live
    if limits.idle_s:
        left[EndReason.IDLE] = limits.idle_s - times.unspoken
    return {reason: s for reason, s in left.items() if s <= limits.warning_s}
