"""A session's bits are its own: alone, in company, in a used slot, and past the ring's end."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm, SamplingSpec, SessionSpec
from tests.lockstep_model import GREEDY, PROMPTED, SAMPLED, Said, noise, run_alone, stepper

SLOTS = 8
FRAMES = 40


class Crowd:
    """Seven neighbours that join, skip, fail and leave as a seed decides."""

    def __init__(self, engine: LockstepStepper, ours: int, seed: int) -> None:
        self._engine = engine
        self._dice = random.Random(seed)
        self._others = [slot for slot in range(engine.slots) if slot != ours]
        self._opening: dict[int, Iterator[None]] = {}
        self._live: set[int] = set()
        self.happened = {"joined": 0, "skipped": 0, "failed": 0, "left": 0, "gave up": 0}

    def before_tick(self, pcm: Pcm, live: np.ndarray) -> set[int]:
        """Let the neighbours act; the slots that are sent what is not a number."""
        poisoned = set()
        for slot in self._others:
            chance = self._dice.random()
            if slot in self._opening:
                self._go_on_opening(slot, chance)
            elif slot not in self._live:
                if chance < 0.3:
                    self._opening[slot] = self._engine.open(slot, self._some_spec())
            elif chance < 0.04:
                self._leave(slot, "left")
            elif chance < 0.2:
                self.happened["skipped"] += 1
            else:
                live[slot] = True
                pcm[slot] = self._dice.choice([0.0, 1.0, 1e-3, -30.0])
                pcm[slot, :: self._dice.randrange(1, 9)] *= -1
                if chance > 0.95:
                    pcm[slot, self._dice.randrange(FRAME_SAMPLES)] = self._dice.choice(
                        [float("nan"), float("inf"), 1e38]
                    )
                    poisoned.add(slot)
        return poisoned

    def after_tick(self, failed: set[int]) -> None:
        for slot in failed:
            self._leave(slot, "failed")

    def _go_on_opening(self, slot: int, chance: float) -> None:
        if chance < 0.05:
            del self._opening[slot]
            self.happened["gave up"] += 1
        elif next(self._opening[slot], "ready") == "ready":
            del self._opening[slot]
            self._live.add(slot)
            self.happened["joined"] += 1

    def _some_spec(self) -> SessionSpec:
        sampling = SamplingSpec(
            greedy=self._dice.random() < 0.3,
            text_temperature=self._dice.random() * 2,
            audio_top_k=self._dice.randrange(1, 60),
            seed=self._dice.getrandbits(64),
        )
        voice = self._dice.choice([None, "coded", "recorded"])
        return SessionSpec(voice, self._dice.choice([None, "Hi", "Be brief."]), sampling)

    def _leave(self, slot: int, how: str) -> None:
        self._engine.close(slot)
        self._live.discard(slot)
        self.happened[how] += 1


def run_in_company(
    engine: LockstepStepper, slot: int, spec: SessionSpec, frames: Pcm, seed: int
) -> tuple[Said, Crowd]:
    """The session beside others, sitting out some ticks itself."""
    crowd, said = Crowd(engine, slot, seed), Said()
    dice = random.Random(seed + 1)
    opening: Iterator[None] | None = None
    waiting, at = dice.randrange(5, 25), 0
    while at < len(frames):
        pcm = np.zeros((engine.slots, FRAME_SAMPLES), np.float32)
        live = np.zeros(engine.slots, np.bool_)
        if waiting:
            waiting -= 1
        elif opening is None:
            opening = engine.open(slot, spec)
        elif next(opening, "ready") == "ready" and dice.random() < 0.8:
            live[slot], pcm[slot] = True, frames[at]
        poisoned = crowd.before_tick(pcm, live)
        result = engine.step(pcm, live)
        assert slot not in result.failed
        assert poisoned <= set(result.failed)
        if live[slot]:
            said.pcm.append(result.pcm[slot].copy())
            said.text.append(result.text.get(slot, ""))
            at += 1
        crowd.after_tick(set(result.failed))
    engine.close(slot)
    return said, crowd


@pytest.mark.parametrize("bank_rows", [1, 8])
@pytest.mark.parametrize("spec", [GREEDY, PROMPTED], ids=["greedy", "prompted"])
def test_a_session_is_the_same_alone_and_in_company(bank_rows: int, spec: SessionSpec) -> None:
    frames = noise(1, FRAMES)
    alone = run_alone(stepper(SLOTS, bank_rows), 0, spec, frames)
    engine = stepper(SLOTS, bank_rows)
    for slot, seed in ((3, 10), (7, 11)):
        said, crowd = run_in_company(engine, slot, spec, frames, seed)
        assert all(crowd.happened[what] for what in ("joined", "skipped", "failed", "left"))
        assert said == alone
        for other in range(SLOTS):
            engine.close(other)
        # The same slot again, straight after; then one that may have failed last.
        assert run_alone(engine, slot, spec, frames) == alone
        assert run_alone(engine, slot - 1, spec, frames) == alone


def test_neighbours_do_matter_to_the_test() -> None:
    """Sessions of other seeds and other callers differ, so equality above says something."""
    engine = stepper(2)
    frames = noise(1, 12)
    first = run_alone(engine, 0, SAMPLED, frames)
    assert run_alone(engine, 1, SAMPLED, frames) == first
    other = SessionSpec(sampling=SamplingSpec(seed=5))
    assert run_alone(engine, 0, other, frames).text != first.text
    assert run_alone(engine, 0, SAMPLED, noise(2, 12)).text != first.text
    assert run_alone(engine, 0, PROMPTED, frames).text != first.text


@pytest.mark.parametrize(
    "frames", [250, pytest.param(4000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_a_recycled_slot_is_as_new_far_past_the_ring(frames: int) -> None:
    caller = noise(3, frames)
    engine = stepper(2, bank_rows=2)
    first = run_alone(engine, 0, PROMPTED, caller)
    assert run_alone(engine, 0, PROMPTED, caller) == first
    assert len(set(first.text[-100:])) > 20
