"""The Compose file names what there is: settings, files, and times that fit the server's drain."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rtc_agent.config import PREFIX, Settings, load
from tests.deployment.files import DOCKER, read_yaml, seconds

COMPOSE = read_yaml(DOCKER / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
AGENTS = [service for name, service in SERVICES.items() if name.startswith("agent")]
SETTINGS = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}


def environment(service: dict[str, Any]) -> dict[str, str]:
    """Variable → value as written; empty where the caller's own is passed on."""
    return {name: value for name, _, value in (e.partition("=") for e in service["environment"])}


def default(value: str) -> str:
    """What `${NAME:-default}` is when the caller has not set it."""
    found = re.fullmatch(r"\$\{\w+:-(.*)\}", value)
    return found[1] if found else value


@pytest.mark.parametrize("service", AGENTS)
def test_every_setting_is_one(service: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    variables = environment(service)
    assert set(variables) <= SETTINGS
    for name, value in variables.items():
        monkeypatch.setenv(name, default(value))
    load()


@pytest.mark.parametrize("service", AGENTS)
def test_a_container_is_not_killed_before_its_calls_have_ended(service: dict[str, Any]) -> None:
    drain_s = float(default(environment(service)["RTC_AGENT_DRAIN_S"]))
    grace_s = seconds(default(service["stop_grace_period"]))
    assert grace_s >= drain_s + Settings().stop_timeout_s + 2


def test_only_the_agent_starts_by_itself() -> None:
    assert [name for name, service in SERVICES.items() if "profiles" not in service] == ["agent"]


def test_what_is_built_and_mounted_is_there() -> None:
    for name, service in SERVICES.items():
        build = service.get("build")
        if isinstance(build, str):
            assert (DOCKER / build / "Dockerfile").is_file(), name
        elif build:
            recipe = (DOCKER / build["context"] / build["dockerfile"]).resolve()
            assert f" AS {build['target']}\n" in recipe.read_text()
        for volume in service.get("volumes", []):
            source = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", volume).split(":")[0]
            assert source in COMPOSE["volumes"] or (DOCKER / source).exists(), volume


def test_the_relay_gets_what_its_script_asks_for() -> None:
    asked = set(re.findall(r"\$\{?([A-Z_]+)", (DOCKER / "coturn" / "start.sh").read_text()))
    assert set(environment(SERVICES["coturn"])) <= asked
