"""`rtc-agent load`: many probing calls at once, from a few processes.

Every caller replays packets that were encoded once and only notes the packets that come back;
what they hold is looked at after the calls are over. So a caller costs its packets and little
else, and the machine's time is the server's.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import math
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from rtc_agent import garbage
from rtc_agent.client.call_client import CallClient
from rtc_agent.client.chirps import ProbeSignal
from rtc_agent.client.figures import percentiles
from rtc_agent.client.impair import Impairment
from rtc_agent.client.measurement import Measurement, measure, payloads
from rtc_agent.client.offer import Signaling, SmallWebRtcSignaling
from rtc_agent.client.server_cpu import LocalServer, find_server
from rtc_agent.client.sources import PayloadSource, SilentPayload
from rtc_agent.clock import MonotonicClock
from rtc_agent.engine.stepper import SAMPLE_RATE
from rtc_agent.errors import InvalidRequest, RtcAgentError
from rtc_agent.media.codecs import PACKET_S, PACKET_SAMPLES, encoder_for, silence
from rtc_agent.media.ice import IceSettings
from rtc_agent.processes.signals import end_with_parent

LISTEN_ON_S = 2.0
_CALLS_A_PROCESS = 8
_START_S = 2.0
"""For the processes to start."""
_ENCODING_S = 0.02
"""For them to encode a second of what their calls say, twice over."""
_SETTLE_BEFORE_S = 0.5
_SUMS = ("underruns", "packets_lost", "concealed_ms", "dropped_ms")
"""Of the server's statistics: its playout ran dry; what it made up for packets that were lost or
late; what came too late for it. They tell its own trouble from its callers'."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_IGNORED = frozenset({"levels", "speech", "text"})
"""Messages of the server's that nobody looks at after a load."""


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """What to put on a server."""

    url: str
    calls: int
    seconds: float = 20.0
    """Measured time, in which all calls are up."""
    processes: int | None = None
    ramp_s: float = 0.1
    """Between one call's beginning and the next."""
    impairment: Impairment = field(default_factory=Impairment)
    """Each call has its own fate, from the seed on."""
    ice: IceSettings = field(default_factory=IceSettings)
    signaling: Callable[[str], Signaling] = SmallWebRtcSignaling
    """How a server at a URL is offered a call; picklable."""
    waits_for_ready: bool = True
    """False for servers that do not say when their agent listens."""
    settle_s: float = 2.0
    """Between the last call's turn to begin and the measured time."""

    def __post_init__(self) -> None:
        if not 1 <= self.calls <= 10_000:
            raise InvalidRequest("A load is 1 to 10000 calls.")
        if not 2 <= self.seconds <= 86_400:
            raise InvalidRequest("A load takes from 2 seconds to a day.")
        if self.processes is not None and not 1 <= self.processes <= self.calls:
            raise InvalidRequest("Processes are at least 1 and no more than the calls.")

    @property
    def process_count(self) -> int:
        """As asked, or one for every eight calls while there are cores to spare."""
        if self.processes is not None:
            return self.processes
        spare = max(1, (os.cpu_count() or 2) // 2)
        return min(spare, math.ceil(self.calls / _CALLS_A_PROCESS))


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How one of the calls went."""

    failure: str | None = None
    """Why it did not come up or did not last; None for a good call."""
    connect_ms: float | None = None
    ready_ms: float | None = None
    lateness_ms: float = 0.0
    measured: Measurement = field(default_factory=Measurement)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """How the server did."""

    order: LoadOrder
    outcomes: tuple[CallOutcome, ...]
    server_cpu_s: float | None
    """Processor time of the server in the measured time; None where it is not on this machine."""
    server_rss_bytes: int | None
    """Its resident memory at the end of that time."""
    callers_cpu_s: float
    """Of the callers over their whole lives, with looking at what came back."""

    @property
    def good(self) -> list[CallOutcome]:
        return [outcome for outcome in self.outcomes if outcome.failure is None]

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        good = self.good
        measured = [outcome.measured for outcome in good]
        middles = [percentiles(m.delays_ms)["p50"] for m in measured if m.delays_ms]
        known = [middle for middle in middles if middle is not None]
        intervals = [1e3 * gap for m in measured for gap in _intervals(m)]
        cpu_s = self.server_cpu_s
        return {
            "mouth_to_ear_ms": percentiles(d for m in measured for d in m.delays_ms),
            "call_p50_ms": percentiles(known),
            "call_p50_spread_ms": round(max(known) - min(known), 1) if known else None,
            "underruns": sum(len(m.dropouts) for m in measured),
            "concealed_ms": round(
                sum(m.concealed_ms + m.server.get("concealed_ms", 0.0) for m in measured), 1
            ),
            "lost_chirps": sum(m.lost_chirps for m in measured),
            "lost_packets": sum(m.lost_packets for m in measured),
            "server_counts": {
                "left_out_frames": sum(m.left_out_frames for m in measured),
                **{
                    name: round(sum(m.server.get(name, 0.0) for m in measured), 1) for name in _SUMS
                },
            },
            "packet_interval_ms": percentiles(intervals),
            "connect_ms": percentiles(o.connect_ms for o in good if o.connect_ms is not None),
            "ready_ms": percentiles(o.ready_ms for o in good if o.ready_ms is not None),
            "calls": len(self.outcomes),
            "failed_calls": len(self.outcomes) - len(good),
            "failures": dict(collections.Counter(o.failure for o in self.outcomes if o.failure)),
            "server_cpu_s": None if cpu_s is None else round(cpu_s, 2),
            "server_cpu_percent_a_call": (
                round(100 * cpu_s / self.order.seconds / len(good), 2)
                if cpu_s is not None and good
                else None
            ),
            "server_rss_mib": (
                None if self.server_rss_bytes is None else round(self.server_rss_bytes / 2**20, 1)
            ),
            "callers_cpu_s": round(self.callers_cpu_s, 2),
            "caller_lateness_ms": percentiles(o.lateness_ms for o in good),
            "seconds": self.order.seconds,
        }


def _intervals(measured: Measurement) -> list[float]:
    """Seconds between arrivals of one call's packets."""
    times = sorted(at for at, _ in measured.arrivals_s)
    return [later - earlier for earlier, later in zip(times, times[1:], strict=False)]


def phase_s(number: int) -> float:
    """Where in the 20 ms of the clock that caller's packets are due.

    What a caller says waits for the server's tick by up to a packet, as long as the two clocks are
    what they are. So any number of callers has to be spread evenly over that, by the golden ratio:
    left to when they happened to begin, the 95th percentile of eight calls was 120 ms in one run
    and 134 in the next.
    """
    return PACKET_S * (number * _GOLDEN % 1)


async def load(order: LoadOrder) -> LoadReport:
    """Make the calls, let them talk for the measured time, and hang up."""
    clock = MonotonicClock()
    begin_s = clock.now() + _START_S + order.seconds * _ENCODING_S
    window_s = begin_s + order.calls * order.ramp_s + order.settle_s
    count = order.process_count
    shares = [range(first, order.calls, count) for first in range(count)]
    loop = asyncio.get_running_loop()
    # A forked child of a process with a running event loop and threads is not to be trusted.
    context = multiprocessing.get_context("spawn")
    # Those of a killed parent would go on calling, and then wait for ever for more to do.
    bound = functools.partial(end_with_parent, os.getpid(), signal.SIGKILL)
    with ProcessPoolExecutor(count, mp_context=context, initializer=bound) as pool:
        work = functools.partial(_run_share, order, begin_s, window_s)
        running = [loop.run_in_executor(pool, work, share) for share in shares]
        server = find_server(order.url)
        server_cpu_s, server_rss = await _watch(server, clock, window_s, order.seconds)
        results = await asyncio.gather(*running)
    outcomes = tuple(outcome for part, _ in results for outcome in part)
    return LoadReport(order, outcomes, server_cpu_s, server_rss, sum(cpu_s for _, cpu_s in results))


async def _watch(
    server: LocalServer | None, clock: MonotonicClock, window_s: float, seconds: float
) -> tuple[float | None, int | None]:
    """Processor seconds of the server in the measured time, and its memory after it."""
    if server is None:
        return None, None
    await clock.sleep_until(window_s)
    before_s = server.cpu_s()
    await clock.sleep_until(window_s + seconds)
    return server.cpu_s() - before_s, server.rss_bytes()


def _run_share(
    order: LoadOrder, begin_s: float, window_s: float, numbers: range
) -> tuple[list[CallOutcome], float]:
    """One process's calls, and the processor time they took."""
    outcomes = asyncio.run(_make_calls(order, begin_s, window_s, numbers))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return outcomes, usage.ru_utime + usage.ru_stime


async def _make_calls(
    order: LoadOrder, begin_s: float, window_s: float, numbers: range
) -> list[CallOutcome]:
    clock = MonotonicClock()
    chirps = ProbeSignal(SAMPLE_RATE, pilot=not order.impairment.dtx)
    said = payloads(chirps, order.seconds, encoder_for("opus"), dtx=order.impairment.dtx)
    calls = [
        _Caller(order, number, said, chirps).run(begin_s + number * order.ramp_s, window_s)
        for number in numbers
    ]
    finished, _ = await asyncio.gather(asyncio.gather(*calls), _settle(clock, window_s))
    # Transforms and decoding, most of it, leave other threads of Python alone.
    loop, spare = asyncio.get_running_loop(), (os.cpu_count() or 1) // order.process_count
    with ThreadPoolExecutor(max(1, spare)) as threads:
        return await asyncio.gather(*(loop.run_in_executor(threads, look) for look in finished))


async def _settle(clock: MonotonicClock, window_s: float) -> None:
    """Have no garbage collection go through what the calls are made of while they are measured."""
    await clock.sleep_until(window_s - _SETTLE_BEFORE_S)
    garbage.settle()


class _Caller:
    """One call of a load."""

    def __init__(
        self, order: LoadOrder, number: int, said: list[bytes], chirps: ProbeSignal
    ) -> None:
        self._order = order
        self._number = number
        self._said = said
        self._chirps = chirps

    async def run(self, begin_s: float, window_s: float) -> functools.partial[CallOutcome]:
        """Make the call; returns what is left to do when all calls are over."""
        order = self._order
        impairment = order.impairment
        fate = replace(impairment, seed=impairment.seed + self._number)
        quiet = SilentPayload(encoder_for("opus").encode(silence(PACKET_SAMPLES)))
        client = CallClient(
            order.signaling(order.url),
            ice=order.ice,
            quiet=quiet,
            impairment=fate,
            ignored=_IGNORED,
            phase_s=phase_s(self._number),
        )
        await client.clock.sleep_until(begin_s)
        failure: str | None = None
        origin_s = 0.0
        try:
            async with client:
                await client.connect()
                if order.waits_for_ready:
                    await client.wait_ready()
                # Callers do not talk in step: each begins a little later than the one before.
                await client.wait_until(window_s + 0.013 * (self._number % 16))
                origin_s = client.play(PayloadSource(self._said))
                if await client.wait_said():
                    await client.wait_until(client.clock.now() + LISTEN_ON_S)
        except RtcAgentError as error:
            failure = error.code
        if failure is None and client.ended != "hangup":
            failure = client.ended
        return functools.partial(self._look, client, origin_s, failure)

    def _look(self, client: CallClient, origin_s: float, failure: str | None) -> CallOutcome:
        measured = Measurement()
        if failure is None:
            measured = measure(
                client,
                self._chirps,
                origin_s,
                self._order.seconds,
                trailing_s=LISTEN_ON_S,
                drift_ppm=self._order.impairment.drift_ppm,
            )
            if not measured.delays_ms:
                failure = "no_echo"
        return CallOutcome(
            failure=failure,
            connect_ms=client.connect_ms,
            ready_ms=client.ready_ms,
            lateness_ms=client.track.worst_lateness_s * 1e3,
            measured=measured,
        )
