"""What is remembered of TURN relays and STUN servers: a dead one must not hold every call up.

A circuit breaker for each: one that did not answer a call is left out of the next ones and asked
again beside them, less and less often, until it answers. One that answers, if only to refuse, is
never left out: that costs a call nothing, and its fault is its settings'.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

import aioice.ice
import aioice.stun
import aioice.turn
from aiortc.rtcicetransport import parse_stun_turn_uri

from rtc_agent.clock import Clock
from rtc_agent.errors import RelayUnavailable
from rtc_agent.media.ice import IceSettings
from rtc_agent.media.relay_faults import relay_fault

logger = logging.getLogger(__name__)

PROBE_LIMIT_S = 3.0
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True)
class Relay:
    """The address of a TURN relay or a STUN server, and how it is reached."""

    host: str
    port: int
    transport: str = "udp"
    """`udp` or `tcp`."""
    tls: bool = False
    relays: bool = True
    """False: it is for STUN alone."""

    @classmethod
    def of(cls, url: str) -> Relay | None:
        """That of an ICE server's URL (RFC 7064, RFC 7065); None for one that aiortc cannot use."""
        try:
            parsed = parse_stun_turn_uri(url)
        except ValueError:
            return None
        host, port = str(parsed["host"]), int(parsed["port"])
        match parsed:
            case {"scheme": "stun"}:
                return cls(host, port, relays=False)
            case {"scheme": "turn", "transport": "udp" | "tcp"}:
                return cls(host, port, str(parsed["transport"]))
            case {"scheme": "turns", "transport": "tcp"}:
                return cls(host, port, "tcp", tls=True)
        return None

    @property
    def kind(self) -> str:
        return "TURN relay" if self.relays else "STUN server"

    def __str__(self) -> str:
        if not self.relays:
            return f"stun:{self.host}:{self.port}"
        scheme = "turns" if self.tls else "turn"
        return f"{scheme}:{self.host}:{self.port}?transport={self.transport}"


async def ask(relay: Relay) -> None:
    """Return once it has answered a request without credentials, if only to refuse.

    Raises:
        Exception: it did not, in one of the ways that `relay_fault` has words for.
    """
    try:
        async with asyncio.timeout(PROBE_LIMIT_S):
            await (_ask_to_relay(relay) if relay.relays else _ask_for_address(relay))
    except aioice.stun.TransactionFailed:
        return


async def _ask_to_relay(relay: Relay) -> None:
    opened, _ = await aioice.turn.create_turn_endpoint(
        asyncio.DatagramProtocol,
        server_addr=(relay.host, relay.port),
        username=None,
        password=None,
        ssl=relay.tls,
        transport=relay.transport,
    )
    opened.close()


async def _ask_for_address(relay: Relay) -> None:
    transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: aioice.ice.StunProtocol(None),  # type: ignore[arg-type]
        remote_addr=(relay.host, relay.port),
        family=socket.AF_INET,
    )
    request = aioice.stun.Message(
        message_method=aioice.stun.Method.BINDING, message_class=aioice.stun.Class.REQUEST
    )
    try:
        await protocol.request(request, transport.get_extra_info("peername"))
    finally:
        transport.close()


@dataclass(frozen=True, slots=True)
class RelayState:
    """How one relay did of late."""

    away: bool = False
    """It does not answer, and calls go without it."""
    fault: str = ""
    """What was wrong the last time, as the end of a sentence; empty if nothing."""
    failures: int = 0
    """Times that it was of no use to a call."""


@dataclass(slots=True)
class _Memory:
    state: RelayState = field(default_factory=RelayState)
    answered_s: float = float("-inf")
    """When it last was of use."""
    pause_s: float = FIRST_PAUSE_S
    """Before it is asked the next time that it is away."""
    asking: asyncio.Task[None] | None = None

    def take_pause(self) -> float:
        """Only a call that it carries brings the pause down: one that answers probes and fails
        calls must not hold up one of them every few seconds."""
        taken = self.pause_s
        self.pause_s = min(2 * taken, LONGEST_PAUSE_S)
        return taken


class RelayHealth:
    """The relays and STUN servers of one process, by what calls and probes found."""

    def __init__(
        self,
        urls: Iterable[str],
        clock: Clock,
        probe: Callable[[Relay], Awaitable[None]] = ask,
    ) -> None:
        """
        Args:
            urls: of ICE servers; those that aiortc cannot use are passed over.
            probe: returns if one answers, and raises if not.
        """
        self._clock = clock
        self._probe = probe
        relays = filter(None, map(Relay.of, urls))
        self._memories = {relay: _Memory() for relay in relays}

    def start(self) -> None:
        """Ask each once, so that the first call need not find out."""
        for relay, memory in self._memories.items():
            memory.asking = asyncio.create_task(self._ask(relay, memory, 0.0))

    async def aclose(self) -> None:
        tasks = [m.asking for m in self._memories.values() if m.asking is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def states(self) -> dict[str, RelayState]:
        """By the relay's address."""
        return {str(relay): memory.state for relay, memory in self._memories.items()}

    def usable(self, ice: IceSettings) -> IceSettings:
        """Settings without those that do not answer.

        Raises:
            RelayUnavailable: no other path than by a relay is allowed, and none answers.
        """
        kept, left_out = [], []
        for server in ice.servers:
            away = {url for url in server.urls if self._is_away(url)}
            left_out += sorted(away)
            if urls := tuple(url for url in server.urls if url not in away):
                kept.append(replace(server, urls=urls))
        left = [Relay.of(url) for server in kept for url in server.urls]
        if ice.relay_only and left_out and not any(each and each.relays for each in left):
            raise RelayUnavailable(
                "Calls may go by a TURN relay alone, and none answers; try again later.",
                retry_after_s=round(FIRST_PAUSE_S),
            )
        return replace(ice, servers=tuple(kept)) if left_out else ice

    def on_opened(self, relay: Relay) -> None:
        """A call has a port on it, or knows its address by it."""
        if (memory := self._memories.get(relay)) is not None:
            memory.answered_s = self._clock.now()
            memory.pause_s = FIRST_PAUSE_S
            self._is_back(relay, memory)

    def on_failed(self, relay: Relay, error: Exception, limit_s: float) -> None:
        """It was of no use to a call.

        Args:
            limit_s: how long it was waited for.
        """
        if (memory := self._memories.get(relay)) is None:
            return
        state = memory.state
        memory.state = replace(state, failures=state.failures + 1)
        fault = relay_fault(error, limit_s)
        if not isinstance(error, aioice.stun.TransactionFailed):
            # Who answered another meanwhile is there, but not for all of this machine's addresses.
            if memory.answered_s < self._clock.now() - limit_s:
                self._is_away_now(relay, memory, fault)
        elif not state.away and fault != state.fault:
            memory.state = replace(memory.state, fault=fault)
            logger.warning("The %s %s %s. Calls go without it meanwhile.", relay.kind, relay, fault)

    def _is_away(self, url: str) -> bool:
        relay = Relay.of(url)
        return relay in self._memories and self._memories[relay].state.away

    def _is_away_now(self, relay: Relay, memory: _Memory, fault: str) -> None:
        if memory.state.away:
            return
        memory.state = replace(memory.state, away=True, fault=fault)
        logger.warning(
            "The %s %s %s. Calls go without it until it answers; it is asked again and again, "
            "every %g s in the end. Look at its address, at whether it runs, and at firewalls "
            "between it and here.",
            relay.kind,
            relay,
            fault,
            LONGEST_PAUSE_S,
        )
        if memory.asking is None or memory.asking.done():
            memory.asking = asyncio.create_task(self._ask(relay, memory, memory.take_pause()))

    def _is_back(self, relay: Relay, memory: _Memory) -> None:
        was_away = memory.state.away
        memory.state = replace(memory.state, away=False, fault="")
        if was_away:
            logger.info("The %s %s answers; calls use it again.", relay.kind, relay)

    async def _ask(self, relay: Relay, memory: _Memory, pause_s: float) -> None:
        """Until it answers. What it is asked again for is not begun anew by calls meanwhile."""
        while True:
            await self._clock.sleep_until(self._clock.now() + pause_s)
            try:
                await self._probe(relay)
            except Exception as error:
                self._is_away_now(relay, memory, relay_fault(error, PROBE_LIMIT_S))
            else:
                if memory.state.away:
                    self._is_back(relay, memory)
                return
            pause_s = memory.take_pause()
