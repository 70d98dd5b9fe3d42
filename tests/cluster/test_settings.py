"""`cluster.toml`: what is in it, and what is said of what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtc_agent.cluster.plan import Plan
from rtc_agent.cluster.settings import ClusterSettings, load
from rtc_agent.errors import ConfigError


def _file(folder: Path, text: str) -> Path:
    path = folder / "cluster.toml"
    path.write_text(text)
    return path


def test_the_top_is_the_clusters_and_the_table_a_servers(tmp_path: Path) -> None:
    cluster, server = load(
        _file(tmp_path, 'replicas = 3\nfronts = 2\n[server]\nagent = "echo"\nsessions = 9\n')
    )
    assert (cluster.replicas, cluster.fronts) == (3, 2)
    assert (server.agent, server.sessions) == ("echo", 9)
    assert server.media_workers == 1, "a replica's calls are held by workers"


def test_the_environment_has_the_last_word_here_and_on_every_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, server = load(_file(tmp_path, '[server]\nagent = "echo"\npublic_ip = "192.0.2.1"\n'))
    plan = Plan.of(cluster, server, "secret")
    monkeypatch.setenv("RTC_AGENT_PUBLIC_IP", "192.0.2.77")
    assert plan.server_here().public_ip == "192.0.2.77"
    assert plan.server_anywhere().public_ip == "192.0.2.1"
    assert load(_file(tmp_path, '[server]\npublic_ip = "192.0.2.1"\n'))[1].public_ip == "192.0.2.77"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("replica = 2", "replica: Extra"),
        ("replicas = -1", "replicas"),
        ('agent = "echo"', "below [server]"),
        ("min_replicas = 2", "belong together"),
        ("min_replicas = 3\nmax_replicas = 2", "more than max_replicas"),
        ("server = 3", "table"),
        ("replicas = ", "not valid TOML"),
        ("[server]\nsesions = 3", "sesions"),
        ('[server]\nhost = "0.0.0.0"', "there are no keys"),
        (
            "[server.telephony]\njanus = 'ws://127.0.0.1:8188'\nregistration = 'guest'",
            "phone line",
        ),
    ],
)
def test_what_does_not_fit_is_named(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(_file(tmp_path, text))
    assert words in refusal.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("agent", "device", "gpus"),
    [("echo", "auto", 0), ("tiny", "auto", 0), ("personaplex", "auto", 1), ("moshi", "cpu", 0)],
)
def test_a_model_that_needs_a_gpu_gets_one(
    agent: str, device: str, gpus: float, tmp_path: Path
) -> None:
    cluster, server = load(_file(tmp_path, f'[server]\nagent = "{agent}"\ndevice = "{device}"\n'))
    assert cluster.gpus_for(server) == gpus
    assert ClusterSettings(gpus=0.5).gpus_for(server) == 0.5


def test_a_plan_keeps_secrets_and_its_number_of_replicas_through_an_upgrade(tmp_path: Path) -> None:
    cluster, server = load(_file(tmp_path, '[server]\ntoken_secret = "of all hosts"\n'))
    plan = Plan.from_values(Plan.of(cluster, server, "secret").scaled(4).to_values())
    after = plan.upgraded(cluster, server)
    assert (after.replicas, after.generation, after.version) == (4, 2, 3)
    assert after.secret == "secret"
    assert after.server_here().token_secret.get_secret_value() == "of all hosts"


def test_values_of_another_version_are_understood_as_far_as_they_go() -> None:
    values = Plan("{}", "{}", "secret", 1).to_values() | {"news": 1}
    assert Plan.from_values(values).secret == "secret"
