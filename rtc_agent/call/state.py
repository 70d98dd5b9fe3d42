"""The states of a call and the reasons for which one ends."""

from __future__ import annotations

import enum


class CallState(enum.StrEnum):
    """A call's way; it never goes back, but for a connection that is lost and found."""

    CONNECTING = "connecting"
    """The offer was answered; no media yet. The agent is prepared meanwhile."""
    OPENING = "opening"
    """Media can flow; the agent is not ready yet."""
    LIVE = "live"
    RECONNECTING = "reconnecting"
    """The connection was lost; slot and conversation are kept for a caller who comes back."""
    ENDED = "ended"


class EndReason(enum.StrEnum):
    """Why a call ended: a stable code, and words for the person who was on it."""

    HANGUP = "hangup"
    PEER_CLOSED = "peer_closed"
    CONNECTION_FAILED = "connection_failed"
    CONNECT_TIMEOUT = "connect_timeout"
    PEER_VANISHED = "peer_vanished"
    IDLE = "idle"
    CALL_LIMIT = "call_limit"
    AGENT_FAILED = "agent_failed"
    FLOOD = "flood"
    SERVER_STOPPING = "server_stopping"
    ENDED_BY_OPERATOR = "ended_by_operator"
    REFUSED = "refused"

    @property
    def message(self) -> str:
        return _MESSAGES[self]


_MESSAGES = {
    EndReason.HANGUP: "You hung up.",
    EndReason.PEER_CLOSED: "The connection was closed from your side.",
    EndReason.CONNECTION_FAILED: "The connection was lost.",
    EndReason.CONNECT_TIMEOUT: "No connection came about in time. "
    "UDP may be blocked between you and the server; a TURN server helps.",
    EndReason.PEER_VANISHED: "Nothing arrived from your side any more.",
    EndReason.IDLE: "The call ended because you had not spoken for a while.",
    EndReason.CALL_LIMIT: "The call reached its longest allowed time.",
    EndReason.AGENT_FAILED: "The agent failed and could not go on.",
    EndReason.FLOOD: "Far too many messages came from your side.",
    EndReason.SERVER_STOPPING: "The server is being stopped.",
    EndReason.ENDED_BY_OPERATOR: "Whoever runs the server ended the call.",
    EndReason.REFUSED: "The call could not be set up.",
}
