"""Whether the other side still wants to be sent to (RFC 7675), asked with more patience.

aioice takes an answer that needs more than half a second for none, and closes the connection after
six of these. So a caller behind a satellite is lost after 33 s although everything he sends
arrives, and so is one whose packets wait in a socket since the machine has other work: in 208 KiB
there are five seconds of them. RFC 7675 counts every answer within 30 s. Can go once aioice waits
longer for one than `stun.RETRY_RTO`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import aioice.ice
import aioice.stun

from rtc_agent.media.moved import moved_uses

INTERVAL_S = 5.0
"""From one question to the next, a fifth less or more (RFC 7675, 5.1)."""
RETRANSMISSIONS = 4
"""A question is put again after 0.5, 1.5, 3.5 and 7.5 s, and given up after 15.5 s."""
QUESTIONS = 6
"""In a row without an answer to any; consent ends when it would be time for another."""


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
    unanswered = 0
    asked: set[asyncio.Task[None]] = set()

    async def ask(pair: Any) -> None:
        nonlocal unanswered
        with contextlib.suppress(aioice.stun.TransactionError, ConnectionError):
            await pair.protocol.request(
                self.build_request(pair, nominate=False),
                pair.remote_addr,
                integrity_key=self.remote_password.encode(),
                retransmissions=RETRANSMISSIONS,
            )
            unanswered = 0

    try:
        while True:
            await asyncio.sleep(INTERVAL_S * random.uniform(0.8, 1.2))
            if unanswered >= QUESTIONS:
                break
            unanswered += 1
            for pair in self._nominated.values():
                task = asyncio.create_task(ask(pair))
                asked.add(task)
                task.add_done_callback(asked.discard)
    finally:
        for task in asked:
            task.cancel()
    # Closing would otherwise wait for the task that it runs in.
    self._query_consent_task = None
    await self.close()
