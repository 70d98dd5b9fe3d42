"""What Prometheus is told: the engine, the calls, refusals, the quality that callers had."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterator, Mapping

from aiohttp import web
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from rtc_agent.call.registry import CallRegistry
from rtc_agent.call.state import CallState, EndReason
from rtc_agent.call.watching import CallFacts
from rtc_agent.engine.client import STEP_BUCKETS_MS, EngineStatus
from rtc_agent.errors import EngineFailed, RtcAgentError, ServerDraining, ServerFull
from rtc_agent.media.relay_health import RelayState

ENGINE_PREFIX = "rtc_agent_engine_"
"""Of what is the same in every process that shares an engine."""
_STAGE_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_LENGTH_S = (1, 10, 30, 60, 120, 300, 600, 1_800, 3_600)
_RATIO = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_MS = (1, 5, 10, 20, 40, 60, 80, 120, 200, 400)
_LAG_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)
_PACKET_MS = 20


class ProcessMetrics:
    """The figures of any process that answers HTTP."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._refusals = self.counter(
            "refusals", "Requests for a call refused, by reason", "reason"
        )
        for error in (ServerFull, ServerDraining, EngineFailed):
            self._refusals.labels(error.code)
        self.loop_lag = self.histogram("loop_lag_seconds", "How late the event loop turns", _LAG_S)

    def histogram(
        self, name: str, help_: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(
            f"rtc_agent_{name}", help_, labels, buckets=buckets, registry=self.registry
        )

    def counter(self, name: str, help_: str, *labels: str) -> Counter:
        return Counter(f"rtc_agent_{name}", help_, labels, registry=self.registry)

    def on_refused(self, error: RtcAgentError) -> None:
        self._refusals.labels(error.code).inc()


class Metrics(ProcessMetrics):
    """The figures of a process that holds calls. A `CallWatcher`."""

    def __init__(self) -> None:
        super().__init__()
        counter, histogram = self.counter, self.histogram
        self._ended = counter("calls_ended", "Calls that ended, by reason", "reason")
        self._stage = histogram(
            "call_stage_seconds", "From the offer to each stage of a call", _STAGE_S, "stage"
        )
        self._length = histogram("call_seconds", "Length of calls", _LENGTH_S)
        self._loss = histogram("call_loss_ratio", "Packets of a call's caller lost", _RATIO)
        self._concealed = histogram("call_concealed_ratio", "A caller's sound made up", _RATIO)
        self._underrun = histogram("call_underrun_ratio", "Packets sent without sound", _RATIO)
        self._skipped = histogram("call_skipped_ratio", "Frames of a call left out", _RATIO)
        self._jitter = histogram("call_jitter_ms", "Jitter at the end of a call", _MS)
        self._receive = histogram("call_receive_buffer_ms", "Caller's sound in wait", _MS)
        self._playout = histogram("call_playout_buffer_ms", "Agent's sound in wait", _MS)
        self.recordings = counter("recordings", "Recordings of calls, by how they went", "outcome")
        self.recording_drops = counter("recording_dropped_frames", "Frames left out of recordings")
        # A counter that begins with its first event hides that event from every rate.
        for reason in set(EndReason) - {EndReason.REFUSED}:
            self._ended.labels(reason.value)
        for outcome in ("kept", "failed"):
            self.recordings.labels(outcome)
        for stage in ("connected", "prepared", "live"):
            self._stage.labels(stage)

    def watch(
        self,
        registry: CallRegistry,
        why_not_ready: Callable[[], str],
        relays: Callable[[], Mapping[str, RelayState]] = dict,
    ) -> None:
        """Keep figures of these calls, their engine and their relays from now on."""
        registry.watchers.append(self)
        self.registry.register(_Now(registry, why_not_ready, relays))

    def on_ended(self, facts: CallFacts) -> None:
        self._ended.labels(facts.reason.value if facts.reason else "").inc()
        self._length.observe(facts.age_s)
        stages = {
            "connected": facts.connected_s,
            "prepared": facts.prepared_s,
            "live": facts.live_s,
        }
        for stage, after_s in stages.items():
            if after_s is not None:
                self._stage.labels(stage).observe(after_s)
        quality = facts.quality
        if quality is None or facts.live_s is None:
            return
        wanted = quality.packets_received + quality.packets_lost
        self._loss.observe(quality.packets_lost / max(1, wanted))
        self._concealed.observe(quality.concealed_ms / max(1, wanted * _PACKET_MS))
        self._underrun.observe(quality.underruns / max(1, quality.packets_sent))
        self._skipped.observe(facts.skipped_frames / max(1, facts.frames))
        self._jitter.observe(quality.jitter_ms)
        self._receive.observe(quality.receive_buffer_ms)
        self._playout.observe(quality.playout_buffer_ms)


class _Now(Collector):
    """What is so at the moment of asking."""

    def __init__(
        self,
        calls: CallRegistry,
        why_not_ready: Callable[[], str],
        relays: Callable[[], Mapping[str, RelayState]],
    ) -> None:
        self._calls = calls
        self._why_not_ready = why_not_ready
        self._relays = relays

    def collect(self) -> Iterator[Metric]:
        ready = float(not self._why_not_ready())
        yield GaugeMetricFamily("rtc_agent_ready", "Whether calls can be taken", value=ready)
        yield from engine_families(self._calls.engine.status())
        states = collections.Counter(call.state for call in self._calls)
        family = GaugeMetricFamily("rtc_agent_calls", "Calls in progress", labels=["state"])
        for state in CallState:
            if state is not CallState.ENDED:
                family.add_metric([state.value], states[state])
        yield family
        up = GaugeMetricFamily(
            "rtc_agent_relay_up", "A TURN relay or STUN server answers", labels=["relay"]
        )
        failures = CounterMetricFamily(
            "rtc_agent_relay_failures",
            "Calls that a TURN relay or STUN server was of no use to",
            labels=["relay"],
        )
        for relay, known in self._relays().items():
            up.add_metric([relay], float(not known.away))
            failures.add_metric([relay], known.failures)
        yield from (up, failures)


def engine_families(status: EngineStatus) -> Iterator[Metric]:
    """The engine's figures."""
    gauges = {
        "ready": ("Whether the engine works", float(status.ready)),
        "slots": ("Calls that it can hold", status.slots),
        "slots_free": ("Of these, how many it could take", status.slots_free),
        "banks": ("Parts of the slots that tick apart from each other", status.banks),
    }
    for name, (help_, value) in gauges.items():
        yield GaugeMetricFamily(f"{ENGINE_PREFIX}{name}", help_, value=value)
    yield CounterMetricFamily(f"{ENGINE_PREFIX}ticks", "Ticks with a step", value=status.ticks)
    yield CounterMetricFamily(
        f"{ENGINE_PREFIX}skipped_ticks", "Ticks left out, being late", value=status.skipped_ticks
    )
    yield CounterMetricFamily(
        f"{ENGINE_PREFIX}lost_frames",
        "Agent frames whose sound could not be made, of all calls",
        value=status.lost_frames,
    )
    ends = [*(str(ms / 1e3) for ms in STEP_BUCKETS_MS), "+Inf"]
    counts = itertools.accumulate(status.step_counts)
    yield HistogramMetricFamily(
        f"{ENGINE_PREFIX}step_seconds",
        "How long a step for all calls takes",
        buckets=list(zip(ends, counts, strict=True)),
        sum_value=status.step_ms_sum / 1e3,
    )


METRICS = web.AppKey("metrics", Metrics)


async def get_metrics(request: web.Request) -> web.Response:
    """`GET /metrics`, in Prometheus's text format."""
    return exposition(request.app[METRICS].registry)


def exposition(registry: CollectorRegistry) -> web.Response:
    return web.Response(
        body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
    )
