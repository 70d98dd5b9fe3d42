"""How TURN relays and STUN servers did for the connections that gather in a block.

Like `aiortc_shim`, whose `check()` tells if they moved, this uses private names of aioice 0.13.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aioice.ice

from rtc_agent.media.relay_faults import relay_fault
from rtc_agent.media.relay_health import Relay, RelayHealth

logger = logging.getLogger(__name__)

RELAY_LIMIT_S = 3.0
"""How long a call waits for one of them."""

RelayOutcome = Callable[[Relay, Exception | None], None]
"""Takes a relay that was asked for a port, and what came of it instead of one."""
_relay_outcome: contextvars.ContextVar[RelayOutcome | None] = contextvars.ContextVar(
    "relay_outcome", default=None
)


@contextlib.contextmanager
def relay_faults() -> Iterator[list[str]]:
    """Sentences about relays that were of no use to connections gathering inside."""
    faults: list[str] = []

    def note(relay: Relay, error: Exception | None) -> None:
        if error is not None:
            words = relay_fault(error, RELAY_LIMIT_S)
            fault = f"The {relay.kind} {relay.host}:{relay.port} {words}."
            logger.warning("%s", fault)
            # A connection asks once for each of its transports.
            if fault not in faults:
                faults.append(fault)

    with _telling_of_relays(note):
        yield faults


@contextlib.contextmanager
def _telling_of_relays(note: RelayOutcome) -> Iterator[None]:
    token = _relay_outcome.set(note)
    try:
        yield
    finally:
        _relay_outcome.reset(token)


def remembering_relays(health: RelayHealth | None) -> contextlib.AbstractContextManager[object]:
    """Let connections gathering inside tell it how relays did; without one, the log."""
    if health is None:
        return relay_faults()

    def note(relay: Relay, error: Exception | None) -> None:
        if error is None:
            health.on_opened(relay)
        else:
            health.on_failed(relay, error, RELAY_LIMIT_S)

    return _telling_of_relays(note)


def tell_outcomes() -> None:
    """Tell what came of TURN relays and STUN servers, and wait no longer than `RELAY_LIMIT_S`.

    aioice passes over one that gives nothing without a word, after 5 s where it does not answer.
    Can go once it tells.
    """
    relayed = getattr(aioice.ice, "relayed_candidate", None)
    if relayed is not None:

        @functools.wraps(relayed)
        async def relayed_candidate(**wanted: Any) -> Any:
            host, port = wanted["turn_server"]
            relay = Relay(host, port, wanted["turn_transport"], wanted["turn_ssl"])
            return await _told(relay, relayed(**wanted))

        aioice.ice.relayed_candidate = relayed_candidate
    reflexive = getattr(aioice.ice, "server_reflexive_candidate", None)
    if reflexive is not None:

        @functools.wraps(reflexive)
        async def server_reflexive_candidate(protocol: Any, stun_server: tuple[str, int]) -> Any:
            server = Relay(*stun_server, relays=False)
            return await _told(server, reflexive(protocol, stun_server))

        aioice.ice.server_reflexive_candidate = server_reflexive_candidate


async def _told(relay: Relay, asked: Awaitable[Any]) -> Any:
    """What it gives in time; whoever wants to know learns how it did."""
    note = _relay_outcome.get()
    try:
        async with asyncio.timeout(RELAY_LIMIT_S):
            given = await asked
    except Exception as error:
        if note is not None:
            note(relay, error)
        raise
    if note is not None:
        note(relay, None)
    return given
