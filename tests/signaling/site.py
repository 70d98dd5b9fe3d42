"""The whole application over a fake engine and transports without a network."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient

from rtc_agent.call.limits import CallLimits
from rtc_agent.call.transport import IceSession, Transport, TransportEvents
from rtc_agent.config import IceServer
from rtc_agent.errors import CallConflict, InvalidOffer, InvalidRequest, UnsupportedOffer
from rtc_agent.media.moshi_transport import MoshiTransport
from rtc_agent.media.relay_health import RelayState
from rtc_agent.protocol.sdp import Flow
from signaling.app import create_app
from signaling.parts import Access, ServerParts
from tests.call.fakes import CallBench, FakeTransport, call_bench
from tests.engine.fakes import FakeStepper

Client = TestClient[web.Request, web.Application]
StartClient = Callable[[web.Application], Awaitable[Client]]

OFFER = "v=0\r\na=ice-ufrag:EsAw\r\n"
ANSWER = "v=0\r\nanswer\r\n"
LISTEN_TOKEN = "listen token"


class SiteTransport(FakeTransport):
    """A fake transport that takes candidates, and offers of the same connection."""

    flow = Flow.CALL
    offer = ""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.candidates: list[tuple[str | None, str | None]] = []
        self.restarts: list[tuple[str, str]] = []

    async def add_candidate(
        self, candidate: str | None, sdp_mid: str | None, sdp_mline_index: int | None
    ) -> None:
        if candidate is not None and "garbage" in candidate:
            raise InvalidRequest("That is no candidate.")
        self.candidates.append((candidate, sdp_mid))

    async def restart_ice(self, ufrag: str, password: str) -> IceSession:
        if ufrag == "stays":
            raise UnsupportedOffer("Not now.")
        self.restarts.append((ufrag, password))
        return IceSession(f"ours{len(self.restarts)}", "p" * 22, ("1 1 udp 1 ::1 9 typ host",), "0")

    async def renegotiate(self, offer: str) -> str:
        if "restart" in offer:
            raise CallConflict("Not like this.")
        return "v=0\r\nagain\r\n"


class Site:
    """An application, a client of it, and what its transports did."""

    def __init__(self, bench: CallBench) -> None:
        self.bench = bench
        self.transports: list[SiteTransport] = []
        self.client: Client

    async def answer(
        self, sdp: str, events: TransportEvents, flow: Flow = Flow.CALL
    ) -> tuple[Transport, str]:
        if not sdp.startswith("v=0"):
            raise InvalidOffer("That is no session description.")
        if "unsupported" in sdp:
            raise UnsupportedOffer("It has no audio.")
        made = SiteTransport(self.bench.clock, events)
        made.flow, made.offer = flow, sdp
        self.transports.append(made)
        return made, ANSWER

    def socket_transport(
        self, events: TransportEvents, post: Callable[[bytes], bool], close: Callable[[], None]
    ) -> MoshiTransport:
        return MoshiTransport(events, post, close)

    @property
    def free(self) -> int:
        return self.bench.engine.status().slots_free

    async def go_live(self, index: int = -1) -> None:
        """The transport of that call connects, and the engine is ready."""
        self.transports[index].events.on_connected()
        await self.bench.run(0.5, *self.transports)


RELAY = "turn:turn.example:3478?transport=udp"


@contextlib.asynccontextmanager
async def serving(
    aiohttp_client: StartClient,
    slots: int = 4,
    access: Access | None = None,
    stepper: FakeStepper | None = None,
) -> AsyncIterator[Site]:
    limits = CallLimits(reconnect_s=10)
    async with call_bench(stepper or FakeStepper(slots=slots), limits) as bench:
        it = Site(bench)
        servers = [
            IceServer(urls=["turn:turn.example?transport=udp"], username="u", credential="c")
        ]
        parts = ServerParts(
            bench.registry,
            it.answer,
            servers,
            socket_transport=it.socket_transport,
            access=access or Access(listen_token=LISTEN_TOKEN, wall=bench.clock.now),
            clock=bench.clock,
            relays=lambda: {RELAY: RelayState(away=True, fault="did not answer", failures=3)},
        )
        it.client = await aiohttp_client(create_app(parts))
        yield it
