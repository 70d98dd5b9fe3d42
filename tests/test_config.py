"""Settings from files, the environment and flags: the later wins, and what does not fit is said."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rtc_agent.config import Settings, dump, load
from rtc_agent.errors import ConfigError
from tests.cli.command import Run, runner


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys)


def toml(folder: Path, text: str | bytes) -> Path:
    file = folder / "settings.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_the_later_of_file_environment_and_flags_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = toml(tmp_path, "port = 1\nsessions = 2\nidle_limit_s = 3\n")
    monkeypatch.setenv("RTC_AGENT_PORT", "4")
    monkeypatch.setenv("RTC_AGENT_SESSIONS", "5")
    settings = load(file, sessions=6, host=None, ice_hosts=[])
    assert (settings.idle_limit_s, settings.port, settings.sessions) == (3, 4, 6)
    assert settings.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prot = 1", "prot: there is no such setting"),
        ("[serve]\nport = 1", "serve: there is no such setting"),
        ("sessions = 5\nbanks = 2", "5 sessions cannot be cut into 2 equal banks"),
        ("sessions = 9\nbanks = 9", "banks: "),
        ("banks = 2\n[stages]", "banks and stages exclude each other"),
        ("a = = b", "not valid TOML"),
        (b'host = "\xff\xfe"', "not valid TOML"),
        ('port = "x"', "port: "),
        ('ice_hosts = ["banana"]', "'banana' does not appear to be an IPv4 or IPv6 address"),
        ('[[ice_servers]]\nurls = "http://x"', "'http://x' is no STUN or TURN address"),
        ('[[ice_servers]]\nurls = ["stun:a:1", "turn:"]', "'turn:' is no STUN or TURN address"),
        ('[[ice_servers]]\nurls = "stun:x"\nuser = "u"', "user: there is no such setting"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_words(
    text: str | bytes, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(toml(tmp_path, text))
    assert says in refusal.value.message


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("RTC_AGENT_SESSION", "9", "Is RTC_AGENT_SESSIONS meant?"),
        ("RTC_AGENT_QQQ", "9", "RTC_AGENT_QQQ, and there is no such setting"),
        ("RTC_AGENT_PORT", "x", "port: "),
        ("RTC_AGENT_ICE_HOSTS", "127.0.0.1", "RTC_AGENT_ICE_HOSTS must be JSON"),
        ("RTC_AGENT_ICE_SERVERS", "stun:x", """such as '[{"urls": "stun:HOST:3478"}]'"""),
    ],
)
def test_an_environment_that_does_not_fit_is_refused_in_words(
    name: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as refusal:
        load()
    assert says in refusal.value.message


def test_the_password_of_a_telephone_account_is_no_wrong_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RTC_AGENT_SIP_PASSWORD", "hush")
    load()


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_AGENT_PORT", "")
    assert load().port == 8080


@pytest.mark.parametrize(
    "url", ["stun:a.example", "stun:[::1]:3478", "turn:a:3478?transport=tcp", "turns:a:443"]
)
def test_addresses_of_stun_and_turn_servers_are_taken(url: str, tmp_path: Path) -> None:
    settings = load(toml(tmp_path, f'ice_hosts = ["::1"]\n[[ice_servers]]\nurls = "{url}"\n'))
    assert settings.ice_servers[0].urls == url


def test_what_the_command_prints_is_a_file_that_gives_the_same_settings(
    run: Run, tmp_path: Path
) -> None:
    text = (
        'port = 5\nice_hosts = ["127.0.0.1"]\nlisten_token = "hush"\n'
        '[[ice_servers]]\nurls = "turn:a:1"\nusername = "ü\\"x"\ncredential = "c"\n'
    )
    outcome = run("config", "--config", toml(tmp_path, text))
    assert outcome.status == 0
    printed: dict[str, Any] = tomllib.loads(outcome.out)
    again = load(toml(tmp_path, outcome.out))
    assert again.port == 5 and again.ice_servers[0].username == 'ü"x'
    # A secret is not printed, and stars in its place are not printed as if they were it.
    assert "hush" not in outcome.out and "listen_token" not in printed


def test_a_refusal_is_the_result_line_too(run: Run, tmp_path: Path) -> None:
    outcome = run("config", "--json", "--config", toml(tmp_path, "prot = 1"))
    assert outcome.refusal and outcome.result["error"]["code"] == "config_error"
    assert run("config", "--json").result["port"] == 8080


def test_a_dump_for_our_own_processes_keeps_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_AGENT_LISTEN_TOKEN", "hush")
    settings = load(ice_hosts=["127.0.0.1"], model=Path("x"))
    again = Settings.model_validate_json(dump(settings))
    assert dump(again) == dump(settings)
    assert again.listen_token.get_secret_value() == "hush"


def test_a_dump_tells_what_was_set_from_what_was_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_AGENT_PORT", "8080")
    again = Settings.model_validate_json(dump(load(agent="demo")))
    assert again.model_fields_set == {"agent", "port"}
    assert Settings.model_validate_json(dump(load(sessions=4))).model_fields_set >= {"sessions"}
