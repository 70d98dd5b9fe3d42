"""The figures of a whole cluster as one exposition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from rtc_agent.cluster.view import Replica
from signaling.front_metrics import Families


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """What a front knows of all replicas together."""

    replicas: Mapping[str, int]
    """How many of them there are, by whether they take calls."""
    slots: int
    slots_free: int
    calls: int

    @classmethod
    def of(cls, replicas: Iterable[Replica]) -> Self:
        known = list(replicas)
        able = [replica for replica in known if replica.takes_calls]
        draining = sum(replica.member.draining for replica in known)
        return cls(
            {"ready": len(able), "draining": draining, "away": len(known) - len(able) - draining},
            sum(replica.state.slots for replica in able if replica.state is not None),
            sum(max(0, replica.free) for replica in able),
            sum(replica.calls for replica in known if replica.alive),
        )

    def collect(self) -> Iterator[Metric]:
        replicas = GaugeMetricFamily(
            "rtc_agent_cluster_replicas", "Replicas, by what they do", labels=["state"]
        )
        for state, count in self.replicas.items():
            replicas.add_metric([state], count)
        yield replicas
        gauges = {
            "slots": ("Calls that all replicas can hold", self.slots),
            "slots_free": ("Of these, how many could be taken", self.slots_free),
            "calls": ("Calls that all replicas hold", self.calls),
        }
        for name, (help_, value) in gauges.items():
            yield GaugeMetricFamily(f"rtc_agent_cluster_{name}", help_, value=value)


def merged(texts: Mapping[str, str], front: str, own: ClusterFigures) -> CollectorRegistry:
    """Expositions by replica, each sample with a label `replica` that says whose it is, this
    front's own (of no replica), and what it knows of all."""
    registry = CollectorRegistry()
    families: dict[str, Metric] = {}
    for replica, text in {**texts, "": front}.items():
        for family in text_string_to_metric_families(text):
            into = families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type)
            )
            into.samples += [
                sample._replace(labels={**sample.labels, "replica": replica})
                for sample in family.samples
            ]
    registry.register(Families([*families.values(), *own.collect()]))
    return registry
