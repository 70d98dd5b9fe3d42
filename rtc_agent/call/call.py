"""One call: a transport on one side, an engine session on the other, and its channels."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from rtc_agent.call.allowance import Allowance
from rtc_agent.call.channel import Channels, Dialects
from rtc_agent.call.hearing import HeardSource
from rtc_agent.call.holder import holder
from rtc_agent.call.limits import CallLimits, CallTimes, approaching, breached
from rtc_agent.call.line import Line
from rtc_agent.call.listener import Listener
from rtc_agent.call.recorder import Recorder
from rtc_agent.call.state import CallState, EndReason
from rtc_agent.call.transport import Reviving, Transport, TransportStats
from rtc_agent.call.watching import CallFacts
from rtc_agent.clock import Clock
from rtc_agent.engine.client import AgentFrame, EngineClient, EngineSession
from rtc_agent.engine.stepper import Pcm, SessionSpec
from rtc_agent.errors import RtcAgentError
from rtc_agent.media.levels import SpeechDetector, SpeechEvent, dbfs
from rtc_agent.media.watchdog import SoundFault, SoundWatchdog
from rtc_agent.protocol import events

log = logging.getLogger(__name__)

STATS_EVERY_S = 2.0
HEARD_S = 0.1
"""A packet so much later than the last one before the loss is a new one."""
LEVELS_EVERY = 2
"""Frames from one report of the levels to the next."""
LEAST_DBFS = -60.0
"""What counts as level 0."""


@dataclass(frozen=True, slots=True)
class CallIds:
    """A call's two names."""

    public: str
    """For logs, metrics and people."""
    session: str
    """Unguessable: for whoever holds the call."""


@dataclass(slots=True)
class _Moments:
    """When things happened, on the injected clock, in seconds."""

    offered: float
    connected: float | None = None
    prepared: float | None = None
    answered: float | None = None
    """When the call first went live; `live` begins anew with a voice that was changed."""
    live: float | None = None
    spoke: float = 0.0
    stats: float = 0.0
    lost: float | None = None
    warned: set[EndReason] = field(default_factory=set)


class Call:
    """The state machine of one call. Transport and engine both report to it.

    The slot is taken when the call is made, so that the agent is prepared while the caller still
    connects; the session starts once both are there. Every way out goes through `end`.
    """

    def __init__(
        self,
        ids: CallIds,
        spec: SessionSpec,
        engine: EngineClient,
        limits: CallLimits,
        clock: Clock,
        dialects: Dialects,
        on_ended: Callable[[Call], None],
    ) -> None:
        self.ids = ids
        self.holder = holder.get()
        self.spec = spec
        self.state = CallState.CONNECTING
        self.reason: EndReason | None = None
        self.transport: Transport | None = None
        self.line = Line(self)
        """Where the call's transport reports to."""
        self.listeners: list[Listener] = []
        self.prepared = asyncio.Event()
        """Set once the agent is ready, or the call has ended before it was."""
        self._engine = engine
        self._limits = limits
        self._clock = clock
        self._on_ended = on_ended
        self._channels = Channels(dialects)
        self._allowance = Allowance(clock)
        self._frame = 0
        self._skipped = 0
        self._held = False
        self._moments = _Moments(offered=clock.now())
        self._heard = HeardSource()
        self._caller_speech = SpeechDetector()
        self._agent_speech = SpeechDetector()
        self._sound = SoundWatchdog()
        self._recorder: Recorder | None = None
        self._measured: TransportStats | None = None
        self._log = logging.LoggerAdapter(log, {"call_id": ids.public})
        self._session: EngineSession | None = None

    async def open(self) -> None:
        """Take a slot and have the agent prepared in it.

        Raises:
            ServerFull, EngineFailed, UnknownVoice, InvalidPersona: nothing is held then.
        """
        session = await self._engine.open(self.spec, self._heard, self, self.ids.public)
        if self.state is CallState.ENDED:
            session.close()
        else:
            self._session = session

    def attach(self, transport: Transport) -> None:
        """The transport that answered the offer; it may already have reported events."""
        self.transport = transport
        self._heard.attach(transport.source)

    def move(self, line: Line, transport: Transport) -> Transport | None:
        """The caller came back over a new connection; the old one, to be closed, if any.

        The conversation goes on meanwhile: the agent hears silence until the new one is up.
        """
        old, self.transport = self.transport, transport
        self.line.cut()
        self.line = line
        self._heard.attach(transport.source)
        if self.state is CallState.RECONNECTING:
            self._moments.lost = self._clock.now()
        elif self.state is not CallState.CONNECTING:
            self._lose()
        return old

    def expect(self) -> None:
        """A caller whose connection was lost is on its way back: the time to wait for it counts
        from now."""
        if self.state is CallState.RECONNECTING:
            self._moments.lost = self._clock.now()

    @property
    def may_return(self) -> bool:
        """Whether the call outlives its connection."""
        return self._limits.reconnect_s > 0

    def add_listener(self, listener: Listener) -> None:
        """Somebody who hears both sides from now on."""
        self.listeners.append(listener)

    def record(self, recorder: Recorder) -> None:
        """Record both sides and the agent's words from now on; the caller is told."""
        if self.reason is not None:
            recorder.close(self.reason.value)
            return
        self._recorder = recorder
        self._notice("recording", "This call is recorded, as you agreed.")

    def tell(self, code: str, message: str, **fields: Any) -> None:
        """A notice for the caller; `code` is for programs, `message` for a person."""
        self._notice(code, message, **fields)

    # What a telephone does beyond media

    def press(self, keys: str) -> None:
        """Keys of the caller's telephone, in order."""
        if self.state is not CallState.ENDED:
            self._obey(events.Dtmf(keys))

    def set_held(self, held: bool) -> None:
        """The caller put the call on hold, or took it back. Meanwhile the agent hears silence, and
        neither its own nor the network's silence counts against the caller."""
        self._held = self._heard.held = held
        self._moments.spoke = self._clock.now()

    # What the transport reports

    def on_connected(self) -> None:
        if self.state is CallState.CONNECTING:
            self._moments.connected = self._clock.now()
            self.state = CallState.OPENING
            self._log.info("connected after %.0f ms", self._age_ms())
            self._go_live_if_ready()
        elif self.state is CallState.RECONNECTING:
            self._find()

    def on_closed(self, reason: str) -> None:
        established = self.state in (CallState.OPENING, CallState.LIVE, CallState.RECONNECTING)
        if reason == EndReason.CONNECTION_FAILED and established and self.may_return:
            self._lose()
        else:
            self.end(EndReason(reason))

    def _lose(self) -> None:
        """Keep everything but the connection. The time for which it is kept counts from when the
        caller was last heard of: a caller who is gone holds the slot no longer because it took
        time to notice."""
        if self.state is not CallState.RECONNECTING:
            self.state = CallState.RECONNECTING
            silent_s = 0.0 if self.transport is None else self.transport.silent_s()
            self._moments.lost = self._clock.now() - silent_s
            left_s = max(0.0, self._limits.reconnect_s - silent_s)
            self._log.info("connection lost; kept for %.0f s", left_s)

    def _find(self) -> None:
        now = self._clock.now()
        self._log.info("connected again after %.1f s", now - (self._moments.lost or now))
        self._moments.lost = None
        self._moments.spoke = now
        self.state = CallState.OPENING if self._moments.live is None else CallState.LIVE
        self._go_live_if_ready()

    def on_channel(self, label: str) -> None:
        if self.transport is not None:
            self._channels.open(label, self.transport)

    def on_message(self, label: str, message: str) -> None:
        if self.state is CallState.ENDED:
            return
        if not self._allowance.take():
            if self._allowance.exhausted:
                self.end(EndReason.FLOOD)
            return
        for command in self._channels.receive(label, message, self._frame):
            self._obey(command)

    def _obey(self, command: events.Command) -> None:
        match command:
            case events.SetMuted(muted=muted):
                self._heard.muted = muted
            case events.Dtmf(digits=digits):
                self._notice("dtmf", f"Keys received: {digits}", digits=digits)
            case events.FlushPlayout():
                if self.transport is not None:
                    self.transport.flush()
            case events.Configure():
                self._configure(command)
            case events.Hangup():
                self.end(EndReason.HANGUP)

    def _configure(self, wish: events.Configure) -> None:
        """Begin again with another voice or persona, in the slot that the call has."""
        spec = replace(
            self.spec,
            voice=self.spec.voice if wish.voice is None else wish.voice or None,
            persona=self.spec.persona if wish.persona is None else wish.persona or None,
        )
        if self._session is None or self._frame > events.CONFIGURE_FRAMES:
            self._notice("too_late", "The conversation is under way; it stays as it began.")
            return
        try:
            self._engine.check(spec)
        except RtcAgentError as error:
            self._notice(error.code, error.message)
            return
        self.spec = spec
        self.prepared.clear()
        if self.state is CallState.LIVE:
            self.state = CallState.OPENING
        self._moments.live = None
        self._frame = 0
        if self.transport is not None:
            self.transport.flush()
        self._session.reopen(spec)

    # What the engine reports

    def on_ready(self) -> None:
        self.prepared.set()
        self._moments.prepared = self._moments.prepared or self._clock.now()
        self._go_live_if_ready()

    def on_frame(self, frame: AgentFrame) -> None:
        if self._moments.live is None or self.transport is None:
            return
        self._frame = frame.index
        if self.state is CallState.LIVE:
            self.transport.play(frame.pcm)
            self._sound.frame(self._clock.now(), frame.text, dbfs(frame.pcm))
        for listener in self.listeners:
            listener.hear(self._heard.last, frame.pcm)
        self._report_speech("caller", self._caller_speech.update(self._heard.last))
        self._report_speech("agent", self._agent_speech.update(frame.pcm))
        if self._caller_speech.speaking:
            self._moments.spoke = self._clock.now()
            self._moments.warned.discard(EndReason.IDLE)
        if self._recorder is not None:
            self._recorder.frame(frame.index, self._heard.last, frame.pcm, frame.text)
        if frame.text:
            self._channels.tell(events.Text(frame=self._frame, delta=frame.text))
        if frame.index % LEVELS_EVERY == 0:
            heard, said = _level(self._heard.last), _level(frame.pcm)
            self._channels.tell(events.Levels(frame=self._frame, caller=heard, agent=said))

    def on_skipped(self, frames: int) -> None:
        self._skipped += frames
        self._notice(
            "overload",
            f"The server is too slow at the moment: {frames * events.FRAME_MS} ms were left out.",
            frames=frames,
        )

    def on_failed(self, reason: str) -> None:
        self.end(EndReason.AGENT_FAILED, reason)

    # What time does

    def check(self) -> None:
        """Apply the limits and send what is due. Called a few times a second."""
        if self.state is CallState.ENDED:
            return
        self.listeners = [listener for listener in self.listeners if not listener.over]
        if self.state is CallState.RECONNECTING and self._is_heard_again():
            self._find()
        times = self._times()
        if (reason := breached(self._limits, times)) is not None:
            if reason is EndReason.PEER_VANISHED and self.may_return:
                self._lose()
            else:
                self.end(reason)
            return
        for limit, left_s in approaching(self._limits, times).items():
            if limit not in self._moments.warned:
                self._moments.warned.add(limit)
                self._notice(
                    f"{limit}_soon",
                    _WARNINGS[limit].format(seconds=max(1, round(left_s))),
                    seconds_left=round(left_s, 1),
                )
        self._send_stats()
        self._watch_sound()
        self._channels.flush()

    def end(self, reason: EndReason, detail: str = "") -> None:
        """End the call: free the slot, tell the caller why. Idempotent; the first reason counts."""
        if self.state is CallState.ENDED:
            return
        was, self.state, self.reason = self.state, CallState.ENDED, reason
        self.prepared.set()
        self.line.cut()
        if self._session is not None:
            self._session.close()
        if self._recorder is not None:
            self._recorder.close(reason.value)
        self._channels.tell(
            events.Ended(frame=self._frame, reason=reason.value, message=detail or reason.message)
        )
        # A refusal is told by whoever refused; a thousand of them must not fill the log.
        level = logging.DEBUG if reason is EndReason.REFUSED else logging.INFO
        self._log.log(level, "ended while %s after %.1f s: %s", was, self._age_ms() / 1e3, reason)
        self._on_ended(self)

    def facts(self) -> CallFacts:
        """The call so far, for those who keep figures."""
        moments, codec = self._moments, getattr(self.transport, "codec", None)

        def after(moment: float | None) -> float | None:
            return None if moment is None else moment - moments.offered

        return CallFacts(
            call_id=self.ids.public,
            state=self.state.value,
            holder=self.holder,
            reason=self.reason,
            voice=self.spec.voice,
            codec=None if codec is None else codec.name,
            age_s=self._age_ms() / 1e3,
            connected_s=after(moments.connected),
            prepared_s=after(moments.prepared),
            live_s=after(moments.answered),
            frames=self._frame,
            skipped_frames=self._skipped,
            quality=self._quality(),
        )

    def _quality(self) -> TransportStats | None:
        """Of the connection so far. What its buffers do once the caller has gone says nothing: for
        a call that is over, they are as they were last measured while it was live."""
        if self.transport is None:
            return None
        stats, live = self.transport.stats(), self._measured
        if self.reason is None or live is None:
            return stats
        return replace(
            stats,
            jitter_ms=live.jitter_ms,
            receive_buffer_ms=live.receive_buffer_ms,
            playout_buffer_ms=live.playout_buffer_ms,
        )

    def _go_live_if_ready(self) -> None:
        session = self._session
        if self.state is not CallState.OPENING or session is None or not session.ready:
            return
        now = self._clock.now()
        self.state = CallState.LIVE
        self._moments.live = self._moments.spoke = self._moments.stats = now
        self._moments.answered = self._moments.answered or now
        info = self._engine.info
        self._channels.tell(
            events.Ready(
                call_id=self.ids.public,
                agent=info.agent,
                description=info.description,
                voice=self.spec.voice or info.default_voice,
            )
        )
        self._log.info("live after %.0f ms", self._age_ms())
        session.start()

    def _report_speech(self, who: events.Who, changes: list[SpeechEvent]) -> None:
        for change in changes:
            if self._recorder is not None:
                self._recorder.speech(who, change.state == "started")
            self._channels.tell(
                events.Speech(
                    frame=self._frame,
                    who=who,
                    speaking=change.state == "started",
                    duration_ms=round(change.duration_s * 1e3),
                )
            )

    def _notice(self, code: str, message: str, **fields: Any) -> None:
        self._channels.tell(
            events.Notice(frame=self._frame, code=code, message=message, fields=fields)
        )

    def _send_stats(self) -> None:
        now = self._clock.now()
        if self.transport is None or self.state is not CallState.LIVE:
            return
        if now - self._moments.stats >= STATS_EVERY_S:
            self._moments.stats = now
            self._measured = self.transport.stats()
            figures = self._measured.as_dict()
            self._channels.tell(events.Stats(frame=self._frame, figures=figures))

    def _watch_sound(self) -> None:
        """Tell of an agent that is read but not heard."""
        if self.transport is None or self.state is not CallState.LIVE:
            return
        now = self._clock.now()
        self._sound.sent(now, self.transport.stats().packets_sent)
        if (fault := self._sound.fault(now)) is not None:
            self._log.warning("the agent is not heard: %s", fault)
            self._notice("no_sound", _NO_SOUND[fault])

    def _times(self) -> CallTimes:
        now = self._clock.now()
        live = self._moments.live
        return CallTimes(
            since_offer=now - self._moments.offered,
            connected=self.state in (CallState.OPENING, CallState.LIVE),
            silent=0.0 if self.transport is None or self._held else self.transport.silent_s(),
            live=None if live is None else now - live,
            unspoken=0.0 if self._held else now - self._moments.spoke,
            lost=None if self._moments.lost is None else now - self._moments.lost,
        )

    def _is_heard_again(self) -> bool:
        """A connection that only seemed to be lost carries something again."""
        transport, lost = self.transport, self._moments.lost
        if transport is None or lost is None or not isinstance(transport, Reviving):
            return False
        return transport.connected and transport.silent_s() + HEARD_S < self._clock.now() - lost

    def _age_ms(self) -> float:
        return (self._clock.now() - self._moments.offered) * 1e3


def _level(pcm: Pcm) -> float:
    return round(min(1.0, max(0.0, 1 - dbfs(pcm) / LEAST_DBFS)), 3)


_NO_SOUND = {
    SoundFault.SILENT: "The agent writes, but its voice is silent. Hang up and call again.",
    SoundFault.UNSENT: "The agent's voice does not leave the server. Hang up and call again.",
}
_WARNINGS = {
    EndReason.CALL_LIMIT: "The call reaches its longest allowed time in {seconds} s.",
    EndReason.IDLE: "The call ends in {seconds} s unless you say something.",
}
