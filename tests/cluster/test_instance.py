"""Where there is no Ray to join, that is said at once, and Ray is not even imported."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from rtc_agent.cluster import instance
from rtc_agent.errors import ConfigError, MissingDependency

NAME = "nobody-has-called-a-cluster-so"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed"
)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def test_a_name_that_no_cluster_has() -> None:
    with pytest.raises(ConfigError, match="--address"), instance.joined(NAME):
        pass


def test_an_address_where_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"No Ray answers at {address}"):
            with instance.joined(NAME, address):
                pass
    assert "ray" not in sys.modules


def test_a_cluster_whose_command_is_gone_is_not_found() -> None:
    note = instance._note(NAME)
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"127.0.0.1:{there.getsockname()[1]}"
        place = {"address": address, "token_file": "none", "pid": os.getpid()}
        note.write_text(json.dumps(place))
        assert instance.find(NAME) == instance.Place(address, "none", os.getpid())
        with pytest.raises(ConfigError, match="already"), instance.own_ray(NAME, 1):
            pass
        beyond_any = 4_194_305
        note.write_text(json.dumps(place | {"pid": beyond_any}))
        assert instance.find(NAME) is None and not note.exists()
    note.write_text(json.dumps(place))
    assert instance.find(NAME) is None, "another process has got the number"
    note.write_text("half a no")
    assert instance.find(NAME) is None


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / f"rtc-agent-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match="not this user's alone"):
        instance.find(NAME)


def test_without_ray_the_way_to_get_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"pip install 'rtc-agent\[cluster\]'"):
        instance.require_ray()
