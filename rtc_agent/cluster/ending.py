"""How a part of the cluster came to its end."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from rtc_agent.cluster.plan import Phase
from rtc_agent.errors import RtcAgentError

log = logging.getLogger(__name__)


async def ending_of(work: Awaitable[None], what: str) -> tuple[Phase, str]:
    """Wait until a part's work is over, or has failed; which of them, and why."""
    try:
        await work
    except RtcAgentError as error:
        log.error("%s", error.message)
        return Phase.FAILED, error.message
    except Exception as error:
        log.exception("%s failed", what)
        return Phase.FAILED, f"{type(error).__name__}: {error}"
    return Phase.OVER, ""
