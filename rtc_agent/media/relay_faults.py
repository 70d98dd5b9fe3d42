"""What is said of a TURN relay that gives nothing."""

from __future__ import annotations

import aioice.stun


def relay_fault(error: Exception, limit_s: float) -> str:
    """The end of a sentence that begins with the relay.

    Args:
        error: what opening it raised.
        limit_s: how long it was waited for.
    """
    match error:
        case aioice.stun.TransactionFailed() if error.response.error_code == 401:
            return "refused the credentials (401): they are wrong, or have expired"
        case aioice.stun.TransactionFailed():
            code, words = error.response.attributes["ERROR-CODE"]
            return f"refused to relay ({code} {words})"
        case TimeoutError() | aioice.stun.TransactionTimeout():
            return f"did not answer within {limit_s:g} s"
        case OSError():
            return f"cannot be reached: {error.strerror or error}"
        case _:
            return f"cannot be used: {error!r}"
