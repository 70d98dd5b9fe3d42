"""A whole phone line on loopback: registrar, real gateway, echo agent, and its records."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtc_agent.call.limits import CallLimits
from rtc_agent.call.registry import CallRegistry
from rtc_agent.clock import MonotonicClock
from rtc_agent.engine.echo import EchoStepper
from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.runner import ThreadRunner
from rtc_agent.engine.stepper import SessionSpec
from rtc_agent.media import aiortc_shim
from rtc_agent.media.ice import IceSettings
from rtc_agent.telephony.config import TelephonySettings
from rtc_agent.telephony.local_line import create_line
from rtc_agent.telephony.phone_call import PhoneCall
from rtc_agent.telephony.phone_line import PhoneLine
from tests.telephony.gateway import RealJanus, media_host
from tests.telephony.registrar import Registrar


async def until(check: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Return once `check` holds."""
    async with asyncio.timeout(timeout_s):
        while not check():
            await asyncio.sleep(0.02)


@dataclass
class Bench:
    """One line, ready for calls."""

    line: PhoneLine
    registry: CallRegistry
    engine: LocalEngine
    janus: RealJanus
    registrar: Registrar
    folder: Path

    @property
    def uri(self) -> str:
        """Where a telephone calls the agent."""
        assert self.registrar.contact is not None
        return self.registrar.contact

    @property
    def calls(self) -> list[PhoneCall]:
        return list(self.line)

    def records(self) -> list[dict[str, Any]]:
        path = self.folder / "cdr.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    async def record(self, timeout_s: float = 5.0) -> dict[str, Any]:
        """The record of the only call so far, once it is over."""
        await until(self.records, timeout_s)
        (record,) = self.records()
        return record

    async def ready(self, timeout_s: float = 20.0) -> None:
        await until(lambda: self.line.status().ready, timeout_s)
        await self.registrar.registered(timeout_s)
        await until(lambda: len(self.line._handles) > self.line.status().lines, timeout_s)

    def free_slots(self) -> int:
        return self.engine.status().slots_free

    async def free_again(self) -> None:
        """Nothing is held two seconds after a call."""
        status = self.engine.status
        await until(lambda: status().slots_free == status().slots, 2.0)
        await until(lambda: not self.calls and len(self.registry) == 0, 2.0)


class SlowEcho(EchoStepper):
    """An echo agent that takes its time to prepare a call."""

    def __init__(self, slots: int, prepare_s: float) -> None:
        super().__init__(slots)
        self._prepare_s = prepare_s

    def open(self, slot: int, spec: SessionSpec) -> Iterator[None]:
        for _ in range(round(self._prepare_s / 0.02)):
            time.sleep(0.02)
            yield
        yield from super().open(slot, spec)


@contextlib.asynccontextmanager
async def phone_bench(
    folder: Path,
    *,
    sessions: int = 4,
    prepare_s: float = 0.0,
    registrar_password: str | None = None,
    wait_ready: bool = True,
    vanished_s: float = 8.0,
    **settings: Any,
) -> AsyncIterator[Bench]:
    """A line on a real gateway, ready for calls.

    Args:
        prepare_s: how long the agent prepares a call.
        vanished_s: after how long a caller from whom nothing at all comes is given up.
    """
    aiortc_shim.prepare()
    clock = MonotonicClock()
    registrar, janus = Registrar(registrar_password), RealJanus(folder)
    await registrar.start()
    await janus.start()
    engine = LocalEngine(SlowEcho(sessions, prepare_s), clock, ThreadRunner())
    engine.start()
    registry = CallRegistry(engine, CallLimits(vanished_s=vanished_s), clock)
    registry.start()
    fields: dict[str, Any] = {
        "janus": janus.url,
        "account": "sip:agent@127.0.0.1",
        "password": "",
        "proxy": registrar.uri,
        "cdr_file": folder / "cdr.jsonl",
        "retry_limit_s": 1,
        **settings,
    }
    telephony = TelephonySettings(**fields)
    host = media_host()
    assert host is not None
    line = create_line(telephony, registry, IceSettings(hosts=(host,)), clock)
    line.start()
    bench = Bench(line, registry, engine, janus, registrar, folder)
    try:
        if wait_ready:
            await bench.ready()
        yield bench
    finally:
        await registry.aclose(5)
        await line.aclose()
        await engine.aclose()
        await janus.kill()
        registrar.close()
