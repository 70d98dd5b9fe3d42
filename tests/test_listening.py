"""Addresses that calls are offered on must be this machine's."""

from __future__ import annotations

import pytest

from rtc_agent.errors import ConfigError
from rtc_agent.listening import require_local


def test_addresses_of_this_machine_are_taken() -> None:
    require_local([])
    require_local(["127.0.0.1"])


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7"])
def test_addresses_of_others_are_refused_with_what_to_do(address: str) -> None:
    with pytest.raises(ConfigError, match=f"{address} is not an address of this machine"):
        require_local(["127.0.0.1", address])
