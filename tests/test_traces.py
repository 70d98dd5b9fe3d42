"""Traces of calls: spans with the right times, and nothing personal."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from rtc_agent.call.state import EndReason
from rtc_agent.errors import MissingDependency
from rtc_agent.traces import CallTraces, otlp_provider
from tests.call.fakes import call_bench

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: E402
    InMemorySpanExporter,
)

NOW_NS = 1_700_000_000_000_000_000


async def test_a_call_is_a_span_with_its_stages() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with call_bench() as bench:
        bench.registry.watchers.append(CallTraces(provider, lambda: NOW_NS))
        call, transport = await bench.live()
        await bench.run(2, transport)
        call.end(EndReason.HANGUP)
        bench.registry._draining = True
        with pytest.raises(Exception, match="stopped"):
            await bench.place()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert spans.keys() == {"call", "connect", "prepare", "open", "offer"}
    whole = spans["call"]
    assert whole.end_time == NOW_NS and whole.start_time is not None
    assert 2.0 < (NOW_NS - whole.start_time) / 1e9 < 3.0
    assert whole.status.is_ok
    assert whole.attributes is not None
    assert whole.attributes["rtc_agent.call_id"] == call.ids.public
    assert whole.attributes["rtc_agent.reason"] == "hangup"
    assert call.ids.session not in str(dict(whole.attributes))
    for stage in ("connect", "prepare", "open"):
        parent = spans[stage].parent
        assert parent is not None and parent.span_id == whole.get_span_context().span_id
        assert spans[stage].start_time == whole.start_time
    assert not spans["offer"].status.is_ok


async def test_spans_reach_a_collector(unused_tcp_port: int) -> None:
    bodies: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        bodies.append(await request.read())
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_tcp_port).start()
    traces = CallTraces(otlp_provider(f"http://127.0.0.1:{unused_tcp_port}/v1/traces"))
    async with call_bench() as bench:
        bench.registry.watchers.append(traces)
        call, _ = await bench.live()
        call.end(EndReason.HANGUP)
    await asyncio.to_thread(traces.close)
    await runner.cleanup()
    assert bodies, "the batch was sent when it was closed"


def test_without_the_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("rtc_agent.traces.importlib.import_module", missing)
    with pytest.raises(MissingDependency, match=r"rtc-agent\[traces\]"):
        otlp_provider("http://127.0.0.1:4318/v1/traces")
