"""Caller, engine and playout together while the stepper is too slow: lag is bounded, always."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest

from rtc_agent.engine.client import AgentFrame
from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.stepper import FRAME_S, Mask, Pcm, SessionSpec, StepResult
from rtc_agent.media.aligner import FrameAligner
from rtc_agent.media.audio_receiver import AudioReceiver
from rtc_agent.media.codecs import PCMU
from rtc_agent.media.levels import dbfs
from rtc_agent.media.playout import PlayoutTrack
from tests.engine.fakes import FakeStepper, RecordingSink
from tests.media.simulation import RECEIVED, noise, send
from tests.media.test_playout import Listener
from tests.virtual_clock import InlineRunner, VirtualClock

T = TypeVar("T")
LOOP = np.concatenate([noise(2.4), noise(0.6, 2, level=0.0003)])
"""What the caller says again and again, with a pause for breath; longer than any lag, so that a lag
can be read off it."""
CODEC_S = 2 * 119 / 24_000


class Echo(FakeStepper):
    def step(self, pcm: Pcm, live: Mask) -> StepResult:
        self.before_step()
        return StepResult(pcm=pcm.copy(), text={})


class SlowRunner(InlineRunner):
    """A thread whose steps take as long as they are told to; the event loop stays free."""

    def __init__(self, clock: VirtualClock) -> None:
        self.duration: Callable[[float], float] = lambda now: 0.001
        self._clock = clock

    async def run(self, work: Callable[[], T]) -> T:
        result = work()
        now = self._clock.now()
        await self._clock.sleep_until(now + self.duration(now))
        return result


class Sink(RecordingSink):
    def __init__(self, track: PlayoutTrack) -> None:
        super().__init__()
        self._track = track

    def on_frame(self, frame: AgentFrame) -> None:
        super().on_frame(frame)
        self._track.play(frame.pcm)


class EchoCall:
    """A caller who hears himself."""

    def __init__(self, seconds: float) -> None:
        self.clock = VirtualClock(0.0)
        self.stepper = Echo(slots=1)
        self.steps = SlowRunner(self.clock)
        self.engine = LocalEngine(self.stepper, self.clock, self.steps)
        self.receiver = AudioReceiver(RECEIVED)
        self.track = PlayoutTrack(PCMU, self.clock)
        self.sink = Sink(self.track)
        packets = send(np.concatenate([LOOP] * (int(seconds / 3) + 2)))
        self._sent = [(t + 0.003, p) for t, p in packets]

    async def run(self, seconds: float) -> Listener:
        self.engine.start()
        source = FrameAligner(self.clock, self.receiver)
        session = await self.engine.open(SessionSpec(), source, self.sink, "call-test")
        await self.clock.run_for(5 * FRAME_S)
        session.start()
        listener = Listener(self.track, self.clock)
        while self.clock.now() < seconds:
            await self.clock.run_for(0.01)
            while self._sent and self._sent[0][0] <= self.clock.now():
                at, packet = self._sent.pop(0)
                self.receiver.push(packet, at)
        await listener.stop()
        await self.engine.aclose()
        return listener


def lags_ms(listener: Listener, every_s: float = 0.25) -> dict[float, float]:
    """Mouth to ear at moments of the call, by what was in the packets sent then; left out where it
    cannot be told because something was skipped or missing just there."""
    found = {}
    heard = listener.heard(PCMU).reshape(-1, 480)
    times = [t for t, _ in listener.packets]
    first = 160
    while first + 5 < len(times):
        piece = np.zeros(72_000, np.float32)
        piece[:2_400] = heard[first : first + 5].reshape(-1)
        match = np.fft.irfft(np.fft.rfft(piece) * np.conj(np.fft.rfft(LOOP)))
        best = int(np.argmax(match))
        origin = np.roll(LOOP, best)[:2_400]
        likeness = match[best] / np.sqrt(np.sum(piece**2) * np.sum(origin**2) + 1e-9)
        if likeness > 0.9 and dbfs(piece[:2_400]) > -30:
            said_s = (-best % 72_000) / 24_000
            found[times[first]] = ((times[first] - said_s - CODEC_S) % 3.0) * 1_000
        first += round(every_s / 0.02)
    return found


def between(lags: dict[float, float], low: float, high: float) -> list[float]:
    return [lag for at, lag in lags.items() if low <= at <= high]


async def test_a_stepper_in_time_costs_a_frame_and_little_else() -> None:
    call = EchoCall(12)
    lags = lags_ms(await call.run(12))
    # A frame, at most a packet's phase, 3 ms of network, the cushion, and a packet to send.
    assert max(between(lags, 5, 12)) < 80 + 20 + 3 + 5 + 10
    assert call.receiver.stats().dropped_ms == 0
    assert call.track.buffer.underruns == 0


async def test_a_stepper_of_95_ms_never_builds_up_a_lag() -> None:
    call = EchoCall(60)
    call.steps.duration = lambda now: 0.095
    lags = lags_ms(await call.run(60))
    late, early = between(lags, 40, 60), between(lags, 5, 15)
    assert len(late) > 10
    assert max(late) < 80 + 2 * 80 + 95 + 40
    assert np.median(late) < np.median(early) + 30
    assert call.sink.skipped > 50


@pytest.mark.parametrize("seed", [1, 2])
async def test_random_stalls_of_300_ms_leave_nothing_behind(seed: int) -> None:
    rng = random.Random(seed)
    call = EchoCall(40)
    call.steps.duration = lambda now: 0.3 if now < 25 and rng.random() < 0.03 else 0.005
    lags = lags_ms(await call.run(40))
    # The very frame whose step takes 300 ms is that late; the ones after it are not.
    assert max(between(lags, 4, 40)) < 80 + 2 * 80 + 300
    assert np.percentile(between(lags, 4, 40), 90) < 80 + 2 * 80 + 60
    assert np.median(between(lags, 36, 40)) < 80 + 70


def once(at_s: float, duration_s: float) -> Callable[[float], float]:
    """A step that takes long, and all others that do not."""
    over = [False]

    def step(now: float) -> float:
        if now > at_s and not over[0]:
            over[0] = True
            return duration_s
        return 0.005

    return step


async def test_a_freeze_of_five_seconds_is_over_when_it_is_over() -> None:
    call = EchoCall(40)
    call.steps.duration = once(10.0, 5.0)
    listener = await call.run(40)
    lags = lags_ms(listener)
    before = np.median(between(lags, 4, 10))
    assert np.median(between(lags, 15.5, 18)) < before + 160
    assert np.median(between(lags, 36, 40)) < before + 30
    assert set(np.diff(listener.pts())) == {160}


async def test_a_process_that_stops_for_five_seconds_is_over_it_too() -> None:
    """As when a machine sleeps: nothing at all runs, and the packets of that time come at once."""
    call = EchoCall(40)
    stop = once(10.0, 5.0)
    call.stepper.before_step = lambda: call.clock.advance(stop(call.clock.now()))
    listener = await call.run(40)
    lags = lags_ms(listener)
    before = np.median(between(lags, 4, 10))
    assert np.median(between(lags, 15.5, 18)) < before + 160
    assert np.median(between(lags, 36, 40)) < before + 50
    # Silence, not a burst, in between: a packet for every slot that anybody could have sent.
    steps = np.diff(listener.pts())
    assert (steps > 0).all() and (steps % 160 == 0).all()
