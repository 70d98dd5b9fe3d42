"""A stepper cut into banks: the same slots and the same bits, whatever the other banks do."""

from __future__ import annotations

import numpy as np
import pytest

from rtc_agent.config import Settings
from rtc_agent.engine import agents, loading
from rtc_agent.engine.banked import BankedStepper, MeasurableBanks
from rtc_agent.engine.capacity import BUDGET_MS, Measurable, TickTimes, fitting_stepper
from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.prefix_cache import PrefixCache
from rtc_agent.engine.stepper import FRAME_SAMPLES, SessionSpec
from rtc_agent.errors import TooSlow
from tests.engine.fakes import FakeStepper
from tests.engine.test_capacity import Sized
from tests.lockstep_model import GREEDY, PROMPTED, SAMPLED, Said, noise, parts, run_alone, stepper

FRAMES = 12


def banked(slots: int, banks: int, bank_rows: int | None = None) -> BankedStepper[LockstepStepper]:
    prefixes = PrefixCache(1 << 24)
    model = parts()
    return BankedStepper(
        lambda rows: LockstepStepper(
            model, rows, bank_rows=bank_rows, prefill_chunk=8, prefixes=prefixes
        ),
        slots,
        banks,
    )


@pytest.mark.parametrize("rows", [1, 2])
def test_a_session_says_what_it_says_in_a_stepper_of_its_banks_size(rows: int) -> None:
    """Rows computed together, or one by one; greedy, drawn, after a prompt; beside others."""
    specs = [SAMPLED, GREEDY, PROMPTED, SAMPLED]
    heard = [noise(seed, FRAMES) for seed in range(4)]
    said = [Said() for _ in specs]
    engine = banked(4, 2, rows)
    for slot, spec in enumerate(specs):
        for _ in engine.open(slot, spec):
            pass
    for frame in range(FRAMES):
        result = engine.step(np.stack([h[frame] for h in heard]), np.ones(4, np.bool_))
        for slot in range(4):
            said[slot].pcm.append(result.pcm[slot].copy())
            said[slot].text.append(result.text.get(slot, ""))
    assert any("".join(each.text) for each in said)
    for slot, spec in enumerate(specs):
        assert said[slot] == run_alone(stepper(2, rows), slot % 2, spec, heard[slot]), slot


def test_a_prompt_is_kept_for_the_callers_of_every_bank() -> None:
    engine = banked(2, 2)
    first = sum(1 for _ in engine.open(0, PROMPTED))
    again = sum(1 for _ in engine.open(1, PROMPTED))
    assert first > again == 1


def test_what_a_bank_says_is_told_of_the_right_slots() -> None:
    made: list[FakeStepper] = []

    def make(slots: int) -> FakeStepper:
        made.append(FakeStepper(slots))
        return made[-1]

    engine = BankedStepper(make, 6, 3)
    assert engine.slots == 6 and engine.info is made[0].info
    for slot in (0, 3, 4):
        list(engine.open(slot, SessionSpec()))
    assert [bank.opened for bank in made] == [[0], [1], [0]]
    made[1].text, made[1].failed = {1: "word"}, {1: "not finite"}
    live = np.zeros(6, np.bool_)
    live[[0, 3]] = True
    result = engine.step(np.arange(6, dtype=np.float32)[:, None].repeat(FRAME_SAMPLES, 1), live)
    assert [bank.steps for bank in made] == [[[0]], [[1]], []]
    assert (result.pcm[[0, 3], 0] == (1, 4)).all()
    assert result.text == {3: "word"} and result.failed == {3: "not finite"}
    engine.close(3)
    assert made[1].closed == [1]
    engine.shutdown()
    assert all(bank.shut_down for bank in made)
    with pytest.raises(ValueError, match="7 slots cannot be cut into 3"):
        BankedStepper(make, 7, 3)


def test_banks_are_rehearsed_one_after_another() -> None:
    rehearsed: list[int] = []

    class Rehearsed(FakeStepper):
        def rehearse(self) -> None:
            rehearsed.append(id(self))

    banks = MeasurableBanks(Rehearsed, 4, 2)
    banks.rehearse()
    assert rehearsed == [id(bank) for bank in banks.banks]


@pytest.mark.parametrize("agent", ["echo", "tiny", "mirror"])
def test_every_agent_can_be_cut(agent: str) -> None:
    choice = agents.create_stepper(Settings(agent=agent, device="cpu", sessions=4, banks=2))  # type: ignore[arg-type]
    cut = choice.stepper
    assert isinstance(cut, BankedStepper)
    assert [bank.slots for bank in cut.banks] == [2, 2] and cut.info.agent == agent
    whole = agents.create_stepper(Settings(agent=agent, device="cpu", sessions=4))  # type: ignore[arg-type]
    assert not isinstance(whole.stepper, BankedStepper)
    cut.shutdown()
    whole.stepper.shutdown()


def test_banks_of_a_model_share_its_weights_and_its_prompts() -> None:
    cut = loading.tiny_stepper(Settings(agent="tiny", device="cpu", sessions=2, banks=2))
    assert isinstance(cut, MeasurableBanks)
    first, second = cut.banks
    assert first.banks[0].lm.weights is second.banks[0].lm.weights
    assert first.prefixes is second.prefixes


def test_sessions_are_lowered_to_what_all_banks_fit() -> None:
    def fitting(fixed_ms: float) -> TickTimes:
        def measure(stepper: Measurable) -> TickTimes:
            took = fixed_ms + stepper.slots
            return TickTimes(stepper.slots, took, took)

        return fitting_stepper(Sized, 64, measure, banks=4)[1]

    times = fitting(41)
    assert (times.sessions, times.p99) == (36, 77) and times.p99 <= BUDGET_MS
    with pytest.raises(TooSlow, match="or fewer --banks"):
        fitting(90)
