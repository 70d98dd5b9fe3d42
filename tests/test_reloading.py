"""SIGHUP: what is taken over, what is not, and what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from rtc_agent.config import Settings
from rtc_agent.errors import ConfigError
from rtc_agent.reloading import CHANGEABLE, Reloader


def reloader(read: list[Any]) -> tuple[Reloader, list[Settings]]:
    used: list[Settings] = []

    def reread() -> Settings:
        found = read.pop(0)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Settings)
        return found

    return Reloader(Settings(call_limit_s=100), reread, used.append), used


def test_what_can_change_is_taken_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    reload, used = reloader([Settings(call_limit_s=200, sessions=9)])
    reload()
    assert [(s.call_limit_s, s.sessions) for s in used] == [(200, 4)]
    assert "taken over: call_limit_s" in caplog.text
    assert "need a restart: sessions" in caplog.text


def test_a_fault_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    reload, used = reloader([ConfigError("The file is no TOML."), Settings(call_limit_s=300)])
    reload()
    assert not used and "stay as they were: The file is no TOML." in caplog.text
    reload()
    assert reload.settings.call_limit_s == 300, "the next one counts"


def test_what_was_made_at_the_start_has_not_changed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    reload, used = reloader([Settings(call_limit_s=100)])
    reload.settings = Settings(call_limit_s=100, token_secret=SecretStr("made"))
    reload()
    assert used[0].token_secret.get_secret_value() == "made"
    assert "none have changed" in caplog.text and "restart" not in caplog.text


def test_every_changeable_setting_exists() -> None:
    assert set(Settings.model_fields) >= CHANGEABLE
