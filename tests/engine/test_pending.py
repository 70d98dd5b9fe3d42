"""A server whose agent is still being loaded."""

from __future__ import annotations

import pytest

from rtc_agent.engine.pending import PendingEngine
from rtc_agent.engine.stepper import SessionSpec
from rtc_agent.errors import EngineFailed
from tests.engine.fakes import FakeStepper, NumberedSource, RecordingSink
from tests.engine.test_local import running


async def test_calls_are_refused_with_how_far_it_is_until_the_agent_is_there() -> None:
    pending = PendingEngine("personaplex")
    pending.report("language model: 40 %")
    assert not pending.status().ready
    assert "40 %" in pending.status().detail
    assert pending.info.agent == "personaplex"
    with pytest.raises(EngineFailed) as refusal:
        await pending.open(SessionSpec(), NumberedSource(), RecordingSink(), "call-a")
    assert "40 %" in refusal.value.message and refusal.value.retry_after_s
    async with running(FakeStepper()) as bench:
        pending.become(bench.engine)
        assert pending.status().ready
        assert pending.info.agent == "fake"
        await pending.open(SessionSpec(), NumberedSource(), RecordingSink(), "call-a")
