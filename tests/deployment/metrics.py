"""What is asked of Prometheus, and what the server tells it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.deployment.files import DOCKER, read_yaml

DASHBOARD = DOCKER / "grafana" / "dashboards" / "rtc-agent.json"
ALERTS = DOCKER / "prometheus" / "alerts.yml"
METRIC = re.compile(r"\b(?:rtc_agent|process)_\w+")
_GROUPING = re.compile(r"\bby \(([\w, ]*)\)")
_MATCHER = re.compile(r"(\w+)\s*=~?\s*\"")


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def dashboard_queries() -> Iterator[str]:
    """Every query, with what Grafana puts into it filled in."""
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")


def alert_rules() -> list[dict[str, Any]]:
    return [rule for group in read_yaml(ALERTS)["groups"] for rule in group["rules"]]


def labels_of(query: str) -> set[str]:
    """Labels by which a query chooses or groups."""
    grouped = {name.strip() for names in _GROUPING.findall(query) for name in names.split(",")}
    return grouped | set(_MATCHER.findall(query))
