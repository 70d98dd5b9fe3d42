"""How calls end, in SIP's numbers and in this project's words."""

from __future__ import annotations

from rtc_agent.call.state import EndReason
from rtc_agent.telephony.records import Party

REASONS = {
    404: "unknown_number",
    480: "unavailable",
    486: "busy",
    487: "cancelled",
    488: "no_common_codec",
    503: "server_full",
    603: "declined",
}
"""Why a call was not answered, by its final SIP status."""

_REFUSALS = {EndReason.SERVER_STOPPING: 503, EndReason.AGENT_FAILED: 500}
_CONNECTION = (
    EndReason.PEER_CLOSED,
    EndReason.PEER_VANISHED,
    EndReason.CONNECTION_FAILED,
    EndReason.CONNECT_TIMEOUT,
)


def refusal(reason: EndReason) -> int:
    """The SIP answer to a caller whose agent's side ended while the telephone still rang."""
    return _REFUSALS.get(reason, 480)


def party(reason: EndReason) -> Party:
    """Who ended a call whose agent's side was over first."""
    return "gateway" if reason in _CONNECTION else "agent"


def leg_reason(by: Party, reason: str) -> EndReason:
    """Why the agent's side ends when the telephone's does."""
    if by == "phone":
        return EndReason.PEER_CLOSED
    if by == "gateway":
        return EndReason.CONNECTION_FAILED
    try:
        return EndReason(reason)
    except ValueError:
        return EndReason.HANGUP
