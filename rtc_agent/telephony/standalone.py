"""The phone line as a process of its own, for agents on other servers."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rtc_agent.clock import MonotonicClock
from rtc_agent.errors import ConfigError
from rtc_agent.listening import signals_set
from rtc_agent.telephony.config import TelephonySettings
from rtc_agent.telephony.phone_line import PhoneLine
from rtc_agent.telephony.remote_agent import RemoteAgents

POLL_S = 0.2


def load(file: Path | None = None, **flags: Any) -> TelephonySettings:
    """The `[telephony]` table of a TOML file, with flags over it; flags of None are not set.

    Raises:
        ConfigError: the file cannot be read, or something in it does not fit.
    """
    table: dict[str, Any] = {}
    if file is not None:
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8")).get("telephony", {})
        except OSError as error:
            raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{file} is not valid TOML: {error}.") from error
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return TelephonySettings.model_validate({**table, **given})
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'telephony'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        raise ConfigError(f"Telephone settings that do not fit: {faults}.") from error


async def run(
    settings: TelephonySettings,
    servers: Sequence[str],
    announce: Callable[[str], None],
    stop: asyncio.Event | None = None,
    key: str | None = None,
) -> None:
    """Bridge telephone calls to those servers until SIGINT or SIGTERM (or `stop`).

    Args:
        announce: told the line's address once it is registered.
        key: what the servers want as bearer, where they want one.

    Raises:
        ConfigError: there is no gateway or no server in the settings.
    """
    stop = stop or asyncio.Event()
    agents = RemoteAgents(servers, settings.codecs, key)
    line = PhoneLine(settings, agents, MonotonicClock())
    with signals_set(stop):
        line.start()
        try:
            announced = False
            while not stop.is_set():
                if line.status().ready and not announced:
                    announced = True
                    announce(settings.account)
                try:
                    async with asyncio.timeout(None if announced else POLL_S):
                        await stop.wait()
                except TimeoutError:
                    continue
        finally:
            await line.aclose()
            await agents.aclose()
