"""A file and a call of the same frames, seed and settings are answered alike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.session import LocalSession
from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES, Pcm, SamplingSpec, SessionSpec
from rtc_agent.engine.tiny import tiny_model
from rtc_agent.offline import run_offline
from tests.engine.fakes import NumberedSource, RecordingSink
from tests.virtual_clock import InlineRunner, VirtualClock

FRAMES = 24


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Recording(NumberedSource):
    """A caller who says given frames, then nothing."""

    def __init__(self, frames: Pcm) -> None:
        super().__init__()
        self._frames = frames

    def reserve(self) -> Pcm:
        if self.number < len(self._frames):
            return self._frames[self.number]
        return np.zeros(FRAME_SAMPLES, np.float32)


@pytest.mark.parametrize("sampling", [SamplingSpec(greedy=True), SamplingSpec(seed=11)])
async def test_offline_and_live_agree(sampling: SamplingSpec) -> None:
    rng = np.random.default_rng(1)
    frames = (0.1 * rng.standard_normal((FRAMES, FRAME_SAMPLES))).astype(np.float32)
    spec = SessionSpec(sampling=sampling)
    parts = tiny_model()

    said: list[Pcm] = []
    alone = LockstepStepper(parts, 1)
    result = run_offline(alone, iter(frames), lambda: frames.size, said.append, spec)

    clock = VirtualClock()
    engine = LocalEngine(LockstepStepper(parts, 2), clock, InlineRunner())
    engine.start()
    try:
        sinks = RecordingSink(), RecordingSink()
        # The other caller comes first, so that the one compared is in another slot.
        for sink, heard in zip(sinks, (frames[::-1], frames), strict=True):
            session = await engine.open(spec, Recording(heard), sink, "call-test")
            assert isinstance(session, LocalSession)
            await clock.run_for(FRAME_S)
            assert sink.ready == 1
            session.start()
        await clock.run_for(FRAMES * FRAME_S)
    finally:
        await engine.aclose()
    live = sinks[1].frames[:FRAMES]
    assert [frame.index for frame in live] == list(range(FRAMES))
    assert {f.index: f.text for f in live if f.text} == {e.frame: e.delta for e in result.events}
    assert result.events, "a silent agent would agree with anything"
    np.testing.assert_array_equal(
        np.concatenate([frame.pcm for frame in live]), np.concatenate(said)
    )
