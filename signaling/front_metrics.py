"""The figures of several processes as one exposition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from signaling.metrics import ENGINE_PREFIX


@dataclass(frozen=True, slots=True)
class FrontFigures:
    """What only the front knows."""

    alive: Mapping[str, bool]
    """By worker."""
    restarts: Mapping[str, int]
    """By process."""

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("rtc_agent_worker_up", "Whether a worker answers", labels=["worker"])
        for worker, alive in self.alive.items():
            up.add_metric([worker], float(alive))
        yield up
        restarts = CounterMetricFamily(
            "rtc_agent_process_restarts", "How often a process died", labels=["process"]
        )
        for process, count in self.restarts.items():
            restarts.add_metric([process], count)
        yield restarts


def merged(texts: Mapping[str, str], own: FrontFigures) -> CollectorRegistry:
    """Expositions by process name, each sample with a label `worker` that says whose it is. What
    is the engine's they all know: it is taken from one that has an engine, and not added up."""
    registry = CollectorRegistry()
    registry.register(Families([*_merge(texts), *own.collect()]))
    return registry


class Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def _merge(texts: Mapping[str, str]) -> Iterator[Metric]:
    families: dict[str, Metric] = {}
    engines: dict[str, dict[str, Metric]] = {}
    for process, text in texts.items():
        for family in text_string_to_metric_families(text):
            if family.name.startswith(ENGINE_PREFIX):
                engines.setdefault(process, {})[family.name] = family
                continue
            into = families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type)
            )
            into.samples += [
                sample._replace(labels={**sample.labels, "worker": process})
                for sample in family.samples
            ]
    yield from families.values()
    yield from max(engines.values(), key=_works, default={}).values()


def _works(engine: Mapping[str, Metric]) -> float:
    """A worker that has lost the engine knows nothing of it."""
    ready, slots = (engine.get(f"{ENGINE_PREFIX}{name}") for name in ("ready", "slots"))
    return sum(m.samples[0].value for m in (ready, slots) if m is not None and m.samples)
