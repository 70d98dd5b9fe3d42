"""Calls as OpenTelemetry traces: a span for each call, with one for each stage of its opening.

Spans are made when a call is over, out of the same facts that metrics and records have: nothing
that was said, no address. They are sent by the exporter's own thread, which drops what it cannot
get rid of.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rtc_agent.call.watching import CallFacts
from rtc_agent.errors import MissingDependency, RtcAgentError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

_NS = 1_000_000_000


class CallTraces:
    """A `CallWatcher` that makes spans."""

    def __init__(self, provider: TracerProvider, wall_ns: Callable[[], int] = time.time_ns) -> None:
        """
        Args:
            wall_ns: nanoseconds since 1970.
        """
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("rtc_agent")
        self._wall_ns = wall_ns

    def on_refused(self, error: RtcAgentError) -> None:
        span = self._tracer.start_span("offer", start_time=self._wall_ns())
        span.set_attribute("rtc_agent.refusal", error.code)
        _mark_failed(span, error.code)
        span.end(end_time=self._wall_ns())

    def on_ended(self, facts: CallFacts) -> None:
        ended = self._wall_ns()
        began = ended - round(facts.age_s * _NS)
        trace = importlib.import_module("opentelemetry.trace")
        call = self._tracer.start_span("call", start_time=began)
        within = trace.set_span_in_context(call)
        for name, value in _attributes(facts).items():
            call.set_attribute(f"rtc_agent.{name}", value)
        for name, after_s in (
            ("connect", facts.connected_s),
            ("prepare", facts.prepared_s),
            ("open", facts.live_s),
        ):
            if after_s is not None:
                stage = self._tracer.start_span(name, context=within, start_time=began)
                stage.end(end_time=began + round(after_s * _NS))
        if facts.live_s is None:
            _mark_failed(call, str(facts.reason))
        call.end(end_time=ended)

    def close(self) -> None:
        """Send what waits. Blocks."""
        self._provider.shutdown()


def _attributes(facts: CallFacts) -> dict[str, str | float]:
    found: dict[str, str | float | None] = {
        "call_id": facts.call_id,
        "reason": None if facts.reason is None else facts.reason.value,
        "key": facts.holder.key or None,
        "codec": facts.codec,
        "frames": facts.frames,
        "skipped_frames": facts.skipped_frames,
    }
    if facts.quality is not None:
        found |= facts.quality.as_dict()
    return {name: value for name, value in found.items() if value is not None}


def _mark_failed(span: Span, why: str) -> None:
    trace = importlib.import_module("opentelemetry.trace")
    span.set_status(trace.Status(trace.StatusCode.ERROR, why))


def otlp_provider(endpoint: str) -> TracerProvider:
    """Sends spans to an OTLP collector over HTTP, such as `http://127.0.0.1:4318/v1/traces`.

    Raises:
        MissingDependency: the extra is not installed.
    """
    try:
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        export = importlib.import_module("opentelemetry.sdk.trace.export")
        resources = importlib.import_module("opentelemetry.sdk.resources")
        otlp = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError as error:
        raise MissingDependency(
            "Traces need packages that are not installed: pip install 'rtc-agent[traces]'."
        ) from error
    provider: TracerProvider = sdk.TracerProvider(
        resource=resources.Resource.create({"service.name": "rtc-agent"}), shutdown_on_exit=False
    )
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter(endpoint)))
    return provider
