"""ICE restarts (RFC 8445, 2.4), which aiortc does not do; can go once it does.

A second ICE connection is made beside the one in use, with credentials and candidates of its own,
and takes its place below DTLS once it connects. Until then, and if it never does, the first one
goes on. Like `aiortc_shim`, this uses private names of aiortc 1.16 and aioice 0.13; `check()` tells
of those that have moved.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from inspect import getsource
from typing import Any

import aioice.ice
from aiortc import RTCIceCandidate, RTCPeerConnection
from aiortc.rtcicetransport import RTCIceGatherer, RTCIceTransport
from aiortc.sdp import candidate_to_sdp

from rtc_agent.errors import UnsupportedOffer
from rtc_agent.media import aiortc_shim as shim
from rtc_agent.media import rtp_path
from rtc_agent.media.ice import IceSettings
from rtc_agent.media.relay_outcomes import remembering_relays

logger = logging.getLogger(__name__)

CONNECT_LIMIT_S = 20.0
"""A restart that has not connected by then is given up."""


def check() -> list[str]:
    """What moved in the installed aiortc and aioice; empty if every touch still fits."""
    uses: list[tuple[Any, str]] = [
        (RTCIceTransport.__init__, "_connection"),
        (RTCIceGatherer.__init__, "_connection"),
        (RTCIceTransport.__init__, "_recv"),
        (RTCIceTransport.__init__, "_send"),
        (RTCIceTransport._monitor, "get_event"),
        (aioice.ice.Connection.get_event, "_event_waiter"),
    ]
    return [f"{f.__qualname__}'s use of {name}" for f, name in uses if name not in getsource(f)]


def allow_restarts(pc: RTCPeerConnection) -> None:
    """Let what arrives come from whichever ICE connection is in use. Call after
    `aiortc_shim.watch_arrivals`, whose way to receive this takes the place of."""
    for transport in shim.ice_transports(pc):
        _receive_from_whichever(transport)


def _receive_from_whichever(transport: Any) -> None:
    async def recv() -> bytes:
        while True:
            connection = transport._connection
            try:
                data: bytes = await connection.recv()
            except ConnectionError:
                if transport._connection is connection:
                    raise
            else:
                # aiortc looks at the first byte without asking whether there is one.
                if data:
                    return data

    transport._recv = recv


class IceRestart:
    """One restart: gathered by `begin`, then under way until it is in use or given up."""

    def __init__(self, transport: RTCIceTransport, fresh: RTCIceTransport) -> None:
        self._transport = transport
        self._fresh = fresh
        self._connection: aioice.ice.Connection = fresh.iceGatherer._connection
        self._task: asyncio.Task[None] | None = None
        parameters = fresh.iceGatherer.getLocalParameters()
        self.ufrag = str(parameters.usernameFragment)
        self.password = str(parameters.password)
        self.candidates = [candidate_to_sdp(c) for c in fresh.iceGatherer.getLocalCandidates()]
        """As SDP has them, without the `candidate:` prefix."""

    @classmethod
    async def begin(
        cls, pc: RTCPeerConnection, ice: IceSettings, on_arrival: Callable[[], None]
    ) -> IceRestart:
        """Gather candidates for another ICE connection of this peer connection.

        Args:
            on_arrival: called for each authentic check that comes over it.

        Raises:
            UnsupportedOffer: there is no single connected transport to restart.
            ServerFull: no UDP port of the range allowed is free.
        """
        transports = shim.ice_transports(pc)
        if len(transports) != 1 or transports[0].state != "completed":
            raise UnsupportedOffer("ICE is not restarted here; the session goes on as it was.")
        # A peer connection that is never used makes a gatherer with the same settings.
        spare = shim.new_peer_connection(ice)
        spare.addTransceiver("audio")
        shim.restrict_hosts(spare, ice.hosts, ice.ports)
        (fresh,) = shim.ice_transports(spare)
        with remembering_relays(ice.relays):
            await fresh.iceGatherer.gather()
        made = cls(transports[0], fresh)
        _watch_checks(made._connection, on_arrival)
        return made

    def start(self, ufrag: str, password: str) -> None:
        """Connect to the peer's new credentials, and take over once that stands."""
        self._connection.ice_controlling = self._transport._connection.ice_controlling
        self._connection.remote_username = ufrag
        self._connection.remote_password = password
        self._task = asyncio.create_task(self._run(), name="ICE restart")

    @property
    def pending(self) -> bool:
        """Neither in use nor given up."""
        return self._task is not None and not self._task.done()

    async def add_candidate(self, candidate: RTCIceCandidate) -> None:
        """A candidate of the peer's for this restart."""
        await self._fresh.addRemoteCandidate(candidate)

    async def aclose(self) -> None:
        """Give it up, unless it is in use by now."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S):
                await self._connection.connect()
        except (TimeoutError, ConnectionError) as error:
            logger.info("an ICE restart came to nothing: %r", error)
            await self._connection.close()
        except asyncio.CancelledError:
            await self._connection.close()
            raise
        else:
            await self._take_over()

    async def _take_over(self) -> None:
        transport, new = self._transport, self._connection
        old = transport._connection
        if transport.state != "completed":
            await new.close()
            return
        # aiortc waits for the old connection's end, to tell of a failure: it is the new one's now.
        new._event_waiter, old._event_waiter = old._event_waiter, None
        transport._connection = transport.iceGatherer._connection = new
        transport._send = new.send
        rtp_path.follow(old, new)
        logger.info("ICE was restarted")
        with contextlib.suppress(ConnectionError):
            await old.close()


def _watch_checks(connection: Any, on_arrival: Callable[[], None]) -> None:
    check_incoming = connection.check_incoming

    def watched(*args: Any) -> None:
        on_arrival()
        check_incoming(*args)

    connection.check_incoming = watched
