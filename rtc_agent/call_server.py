"""The calls of one process: its registry, its application, and the way both are taken down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace

from rtc_agent.call.limits import CallLimits
from rtc_agent.call.recording_place import place_at
from rtc_agent.call.recordings import RecordingEvents, Recordings
from rtc_agent.call.registry import CallRegistry
from rtc_agent.call.transport import Transport, TransportEvents
from rtc_agent.call_records import CallRecords
from rtc_agent.clock import Clock
from rtc_agent.config import Settings
from rtc_agent.engine.client import EngineClient
from rtc_agent.exposure import access, guard_rules
from rtc_agent.garbage import AfterCalls
from rtc_agent.listening import site_runner
from rtc_agent.loop_watch import LoopWatch
from rtc_agent.media import aiortc_shim
from rtc_agent.media.ice import IceServer, IceSettings
from rtc_agent.media.moshi_transport import MoshiTransport
from rtc_agent.media.peer import WebRtcPeer
from rtc_agent.media.relay_health import RelayHealth
from rtc_agent.protocol.sdp import Flow
from rtc_agent.telephony.local_line import create_line
from rtc_agent.telephony.phone_line import PhoneLine
from rtc_agent.threads import in_daemon_thread
from rtc_agent.traces import CallTraces, otlp_provider
from rtc_agent.turn import IceServers, is_turn
from signaling.app import create_app
from signaling.guard import GUARD
from signaling.metrics import Metrics
from signaling.parts import ServerParts, SocketTransport
from signaling.phone import add_phone_routes

RECORDINGS_CLOSE_S = 3.0
TRACES_CLOSE_S = 1.0
HTTP_CLOSE_S = 1.0
"""How long open HTTP requests may take to finish when the server stops."""


class CallServer:
    """Everything of a server but its engine and the place where it listens."""

    def __init__(
        self, settings: Settings, engine: EngineClient, clock: Clock, worker: str = ""
    ) -> None:
        """
        Args:
            worker: this process's name where there are several; ids of its calls begin with it.
        """
        aiortc_shim.prepare()
        self._stop_timeout_s = settings.stop_timeout_s
        self.registry = CallRegistry(engine, limits(settings), clock, name=worker)
        servers = IceServers.of(settings)
        used = ice_settings(settings, servers).servers
        self._relays = RelayHealth((url for server in used for url in server.urls), clock)

        async def answer(
            sdp: str, events: TransportEvents, flow: Flow = Flow.CALL
        ) -> tuple[Transport, str]:
            ice = replace(ice_settings(settings, servers), relays=self._relays)
            return await WebRtcPeer.answer(sdp, events=events, ice=ice, clock=clock, flow=flow)

        def socket_transport(
            events: TransportEvents, post: Callable[[bytes], bool], close: Callable[[], None]
        ) -> SocketTransport:
            return MoshiTransport(events, post, close)

        self.parts = ServerParts(
            self.registry,
            answer,
            settings.ice_servers,
            socket_transport=socket_transport,
            access=access(settings),
            clock=clock,
            issue_ice=servers.issue,
            relays=self._relays.states,
        )
        # What loads an agent holds the interpreter now and then; there are no calls to hear it.
        self._watch = LoopWatch(
            clock, self.parts.metrics.loop_lag.observe, lambda: not engine.status().ready
        )
        self.registry.watchers.append(AfterCalls())
        self._records: CallRecords | None = None
        if settings.call_records is not None:
            self._records = CallRecords(settings.call_records, lambda: engine.info.agent)
            self.registry.watchers.append(self._records)
        self._traces: CallTraces | None = None
        if settings.traces:
            self._traces = CallTraces(otlp_provider(settings.traces))
            self.registry.watchers.append(self._traces)
        self._recordings = recordings(settings, self.parts.metrics)
        self.parts.recordings = self._recordings
        app = create_app(self.parts)
        self.phone: PhoneLine | None = None
        if settings.telephony.enabled:
            # The gateway is near: no relay is needed towards it.
            near = IceSettings(hosts=tuple(settings.ice_hosts))
            self.phone = create_line(settings.telephony, self.registry, near, clock)
            add_phone_routes(app, self.phone, settings.telephony.call_token.get_secret_value())
            self.parts.phone_status = self.phone.status
        self.guard = app[GUARD]
        self.runner = site_runner(app, HTTP_CLOSE_S)

    def use(self, settings: Settings) -> None:
        """Go by what of these settings can change while calls are in progress."""
        self.registry.limits = limits(settings)
        self.guard.use(guard_rules(settings))

    async def start(self) -> None:
        self.registry.start()
        self._watch.start()
        self._relays.start()
        if self._recordings is not None:
            self._recordings.start()
        await self.runner.setup()

    async def aclose(self) -> None:
        """End every call, tell it why, and stop answering HTTP; within the stop timeout."""
        await self.registry.aclose(self._stop_timeout_s)
        if self.phone is not None:
            await self.phone.aclose()
        await self.runner.cleanup()
        await self._watch.aclose()
        await self._relays.aclose()
        if self._traces is not None:
            # A collector that does not answer must not hold up the end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TRACES_CLOSE_S):
                    await in_daemon_thread(self._traces.close)
        if self._recordings is not None:
            await asyncio.to_thread(self._recordings.close, RECORDINGS_CLOSE_S)
        if self._records is not None:
            await self._records.aclose()


def recordings(settings: Settings, metrics: Metrics) -> Recordings | None:
    """Where calls are recorded by these settings; None: nowhere."""
    if not settings.recordings:
        return None
    events = RecordingEvents(
        on_outcome=lambda outcome: metrics.recordings.labels(outcome).inc(),
        on_dropped=metrics.recording_drops.inc,
    )
    place = place_at(settings.recordings)
    return Recordings(place, settings.recording_format, settings.recording_days, events)


def limits(settings: Settings) -> CallLimits:
    return CallLimits(
        connect_s=settings.connect_timeout_s,
        vanished_s=settings.vanished_after_s,
        idle_s=settings.idle_limit_s,
        call_s=settings.call_limit_s,
        warning_s=settings.limit_warning_s,
        reconnect_s=settings.reconnect_grace_s,
    )


def ice_settings(settings: Settings, issued: IceServers | None = None) -> IceSettings:
    """How a peer connection looks for its path, with credentials that are good from now on."""
    servers = tuple(
        IceServer(
            urls=(s.urls,) if isinstance(s.urls, str) else tuple(s.urls),
            username=s.username,
            credential=s.credential,
        )
        for s in (issued or IceServers.of(settings)).issue()
        if settings.own_relay or not is_turn(s)
    )
    first, _, last = settings.ice_ports.partition("-")
    return IceSettings(
        hosts=tuple(settings.ice_hosts),
        servers=servers,
        ports=(int(first), int(last)) if first else None,
        public_ip=settings.public_ip,
    )
