"""Cycles of ended calls are collected without waiting for hundreds of them."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from rtc_agent import garbage


class Knot:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def thawed() -> None:
    yield
    gc.unfreeze()


async def test_a_calls_cycles_are_gone_soon_after_it(
    monkeypatch: pytest.MonkeyPatch, thawed: None
) -> None:
    monkeypatch.setattr(garbage, "AFTER_S", 0.05)
    gc.disable()
    try:
        garbage.settle()
        gone = weakref.ref(Knot())
        watcher = garbage.AfterCalls()
        for _ in range(3):
            watcher.on_ended(facts=object())  # type: ignore[arg-type]
        assert gone() is not None
        await asyncio.sleep(0.2)
        assert gone() is None
    finally:
        gc.enable()
