"""Dashboard and alerts ask for nothing that the server does not tell."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rtc_agent.cluster.figures import ClusterFigures
from rtc_agent.cluster.figures import merged as merge_replicas
from signaling.front_metrics import FrontFigures, merged
from tests.deployment.files import DOCKER, read_yaml
from tests.deployment.metrics import (
    METRIC,
    alert_rules,
    dashboard_queries,
    labels_of,
    panels,
)
from tests.deployment.prometheus import require_prometheus
from tests.signaling.site import StartClient, serving

ADDED = {"instance", "job", "worker", "replica", "le"}
"""Labels that Prometheus, the server's front and a cluster's front add."""


@pytest.fixture
async def exported(aiohttp_client: StartClient) -> dict[str, set[str]]:
    """Every sample that a cluster of servers with media workers shows, with its labels."""
    async with serving(aiohttp_client) as it:
        worker = await (await it.client.get("/metrics")).text()
    figures = FrontFigures(alive={"w0": True}, restarts={"the engine": 0})
    cluster = ClusterFigures({"ready": 1, "draining": 0, "away": 0}, slots=4, slots_free=3, calls=1)
    host = generate_latest(merged({"w0": worker}, figures)).decode()
    text = generate_latest(merge_replicas({"r0": host}, "", cluster)).decode()
    found: dict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(text):
        for label in ("_bucket", "_count", "_sum") if family.type == "histogram" else ():
            found[family.name + label] |= {"stage"} if "stage" in family.name else set()
        for sample in family.samples:
            found[sample.name] |= set(sample.labels)
    return found


async def test_every_metric_that_is_asked_for_is_exported(exported: dict[str, set[str]]) -> None:
    queries = [*dashboard_queries(), *(rule["expr"] for rule in alert_rules())]
    assert len(queries) > 40
    for query in queries:
        asked = set(METRIC.findall(query)) or {"up"}
        assert asked - {"up"} <= set(exported), query
        labels = set().union(*(exported.get(name, set()) for name in asked))
        assert labels_of(query) <= labels | ADDED, query


def test_reasons_that_alerts_look_for_are_reasons() -> None:
    from rtc_agent.call.state import EndReason
    from rtc_agent.errors import ServerFull

    known = {reason.value for reason in EndReason} | {ServerFull.code}
    named = {n for rule in alert_rules() for n in re.findall(r'reason="(\w+)"', rule["expr"])}
    assert named and named <= known


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    identifiers = [panel["id"] for panel in panels()]
    assert len(set(identifiers)) == len(identifiers)


def test_grafana_finds_its_data_and_its_dashboard() -> None:
    provisioning = DOCKER / "grafana" / "provisioning"
    [source] = read_yaml(provisioning / "datasources" / "prometheus.yml")["datasources"]
    [provider] = read_yaml(provisioning / "dashboards" / "rtc-agent.yml")["providers"]
    compose = read_yaml(DOCKER / "compose.yaml")["services"]
    listens = [o for o in compose["prometheus"]["command"] if o.startswith("--web.listen")]
    assert source["url"].removeprefix("http://") == listens[0].partition("=")[2]
    mounts = dict(v.split(":")[:2] for v in compose["grafana"]["volumes"] if v.startswith("./"))
    assert provider["options"]["path"] == mounts["./grafana/dashboards"]


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_its_settings_and_the_alerts() -> None:
    run(require_prometheus("promtool"), "check", "config", DOCKER / "prometheus" / "prometheus.yml")


def test_prometheus_understands_every_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"q:{i}", "expr": query} for i, query in enumerate(dashboard_queries())]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    run(require_prometheus("promtool"), "check", "rules", file)
