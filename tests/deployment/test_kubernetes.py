"""The Kubernetes manifest fits the server: settings, routes, secrets, the time a drain takes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rtc_agent.config import PREFIX, Settings, load
from rtc_agent.exposure import require_keys
from tests.deployment.files import DOCKER, read_documents
from tests.signaling.site import StartClient, serving

OBJECTS = {each["kind"]: each for each in read_documents(DOCKER / "kubernetes.yaml")}
POD: dict[str, Any] = OBJECTS["Deployment"]["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]
SECRETS: dict[str, str] = OBJECTS["Secret"]["stringData"]
SETTINGS_TEXT: str = OBJECTS["ConfigMap"]["data"]["server.toml"]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What the container starts with."""
    for name, value in SECRETS.items():
        (tmp_path / name).write_text(value)
    for variable in CONTAINER["env"]:
        reference = variable["valueFrom"]["secretKeyRef"]
        assert reference["name"] == OBJECTS["Secret"]["metadata"]["name"]
        monkeypatch.setenv(variable["name"], SECRETS[reference["key"]])
    [mount] = [m for m in CONTAINER["volumeMounts"] if m["name"] == "secrets"]
    file = tmp_path / "server.toml"
    file.write_text(SETTINGS_TEXT.replace(mount["mountPath"], str(tmp_path)))
    return load(file)


def test_the_settings_are_settings(settings: Settings) -> None:
    require_keys(settings)
    assert {key.name: key.scopes for key in settings.keys} == {"app": ["call"], "admin": ["admin"]}
    assert settings.token_secret.get_secret_value() and settings.turn_secret.get_secret_value()
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    assert {variable["name"] for variable in CONTAINER["env"]} <= known


def test_a_line_that_waits_to_be_taken_in_is_a_setting_too() -> None:
    waiting = [
        line.removeprefix("# ")
        for line in SETTINGS_TEXT.splitlines()
        if line.startswith("# ") and " = " in line
    ]
    assert waiting
    for line in waiting:
        assert set(tomllib.loads(line)) <= set(Settings.model_fields), line


def test_a_pod_is_not_killed_before_its_calls_have_ended(settings: Settings) -> None:
    command = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert command[0] == "sleep"
    needed_s = int(command[1]) + settings.drain_s + settings.stop_timeout_s + 2
    assert POD["terminationGracePeriodSeconds"] >= needed_s


def test_the_port_is_the_servers(settings: Settings) -> None:
    [port] = CONTAINER["ports"]
    assert port["containerPort"] == port["hostPort"] == settings.port
    assert POD["hostNetwork"]


def test_there_are_ports_for_all_calls_and_then_some(settings: Settings) -> None:
    first, last = map(int, settings.ice_ports.split("-"))
    assert last - first + 1 >= 2 * settings.sessions


async def test_the_probes_ask_what_the_server_answers(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        for probe in ("livenessProbe", "readinessProbe"):
            path = CONTAINER[probe]["httpGet"]["path"]
            assert (await it.client.get(path)).status == 200
        await it.bench.registry.drain(0)
        live, ready = (CONTAINER[p]["httpGet"]["path"] for p in ("livenessProbe", "readinessProbe"))
        assert (await it.client.get(live)).status == 200
        assert (await it.client.get(ready)).status == 503


def test_every_volume_is_mounted_and_the_root_is_not_needed() -> None:
    mounted = {mount["name"] for mount in CONTAINER["volumeMounts"]}
    assert mounted == {volume["name"] for volume in POD["volumes"]}
    assert POD["securityContext"]["runAsNonRoot"]
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
