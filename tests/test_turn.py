"""TURN credentials by a shared secret."""

from __future__ import annotations

import base64
import hashlib
import hmac

from pydantic import SecretStr

from rtc_agent.call_server import ice_settings
from rtc_agent.config import IceServer, Settings
from rtc_agent.turn import IceServers

TURN = IceServer(urls=["turn:turn.example:3478?transport=udp", "turns:turn.example:5349"])
STUN = IceServer(urls="stun:stun.example:3478")
OWN = IceServer(urls="turn:other.example:3478", username="u", credential="c")


def test_turn_servers_get_credentials_that_coturn_would_take() -> None:
    servers = IceServers((TURN, STUN, OWN), "shared", ttl_s=600, wall=lambda: 1_000.5)
    turn, stun, own = servers.issue("caller")
    assert turn.username == "1600:caller"
    expected = hmac.new(b"shared", b"1600:caller", hashlib.sha1).digest()
    assert base64.b64decode(turn.credential or "") == expected
    assert (stun, own) == (STUN, OWN)


def test_the_server_may_do_without_a_relay_of_its_own() -> None:
    settings = Settings(ice_servers=[TURN, STUN], turn_secret=SecretStr("shared"))
    assert len(ice_settings(settings).servers) == 2
    assert ice_settings(settings).servers[0].credential
    spared = settings.model_copy(update={"own_relay": False})
    assert [server.urls for server in ice_settings(spared).servers] == [(STUN.urls,)]


def test_without_a_secret_they_stay_as_they_are() -> None:
    assert IceServers((TURN, STUN, OWN)).issue() == [TURN, STUN, OWN]
