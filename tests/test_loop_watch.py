"""The loop's watch: lag is measured, and what holds it up is named."""

from __future__ import annotations

import asyncio
import linecache
import time

import pytest

from rtc_agent.clock import MonotonicClock
from rtc_agent.loop_watch import STALL_S, LoopWatch


def hold_the_loop_up(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


async def test_a_stall_is_measured_and_its_place_logged(caplog: pytest.LogCaptureFixture) -> None:
    lags: list[float] = []
    watch = LoopWatch(MonotonicClock(), lags.append)
    watch.start()
    await asyncio.sleep(0.2)
    hold_the_loop_up(0.5)
    hold_the_loop_up(0.2)
    await asyncio.sleep(0.2)
    await watch.aclose()
    assert max(lags) > 0.4 and len(lags) >= 3
    assert "hold_the_loop_up" in caplog.text
    assert caplog.text.count("has not turned") == 1, "one warning for a while"
    assert STALL_S < 0.4
    assert __file__ not in linecache.cache, "no source stays in memory for having been quoted"


async def test_a_stall_that_harms_nobody_is_measured_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lags: list[float] = []
    watch = LoopWatch(MonotonicClock(), lags.append, lambda: True)
    watch.start()
    await asyncio.sleep(0.2)
    hold_the_loop_up(0.5)
    await asyncio.sleep(0.2)
    await watch.aclose()
    assert max(lags) > 0.4 and caplog.text == ""


async def test_a_watch_that_never_began_can_be_closed() -> None:
    await LoopWatch(MonotonicClock(), lambda lag: None).aclose()
