"""Whether the other side still wants to be sent to (RFC 7675), asked with more patience.

aioice takes an answer that needs more than half a second for none, and closes the connection after
six of these. So a caller behind a satellite, or on a machine that is busy, is lost after 33 s
although everything he sends arrives. RFC 7675 counts every answer within 30 s. Can go once aioice
waits longer for an answer than `stun.RETRY_RTO`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import aioice.ice
import aioice.stun

from rtc_agent.media.moved import moved_uses

INTERVAL_S = 5.0
"""From an answer to the next question, on average: a fifth less or more (RFC 7675, 5.1)."""
RETRANSMISSIONS = 2
"""A question is put again after 0.5 and 1.5 s, and given up after 3.5 s."""
FAILURES = 4
"""Questions in a row without an answer that end consent: 30 to 38 s."""


def check() -> list[str]:
    """What moved in the installed aioice; empty if it can be asked this way."""
    connection = aioice.ice.Connection
    uses: list[tuple[Callable[..., Any], str]] = [
        (connection.connect, "query_consent"),
        (connection.close, "_query_consent_task"),
        (connection.__init__, "_nominated"),
        (connection.check_start, "build_request"),
        (connection.check_start, "request"),
    ]
    return moved_uses(uses)


def ask_patiently() -> None:
    """From now on, for every connection of this process. Idempotent."""
    if not check():
        aioice.ice.Connection.query_consent = _query_consent  # type: ignore[method-assign]


async def _query_consent(self: Any) -> None:
    """Ask every few seconds; close the connection once nothing is answered."""
    failures = 0
    while failures < FAILURES:
        await asyncio.sleep(INTERVAL_S * random.uniform(0.8, 1.2))
        for pair in list(self._nominated.values()):
            try:
                await pair.protocol.request(
                    self.build_request(pair, nominate=False),
                    pair.remote_addr,
                    integrity_key=self.remote_password.encode(),
                    retransmissions=RETRANSMISSIONS,
                )
                failures = 0
            except aioice.stun.TransactionError:
                failures += 1
    # Closing would otherwise wait for the task that it runs in.
    self._query_consent_task = None
    await self.close()
