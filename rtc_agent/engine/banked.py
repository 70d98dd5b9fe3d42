"""A stepper cut into banks: the same slots, in steppers of equal size over the same weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import numpy as np

from rtc_agent.engine.capacity import Measurable, TickTimes
from rtc_agent.engine.stepper import (
    FRAME_SAMPLES,
    FrameStepper,
    Mask,
    Pcm,
    SessionSpec,
    StepperInfo,
    StepResult,
)


class MeasurableStepper(FrameStepper, Measurable, Protocol):
    """A stepper that can be rehearsed."""


S = TypeVar("S", bound=FrameStepper)
M = TypeVar("M", bound=MeasurableStepper)


class BankedStepper(Generic[S]):
    """Steps its banks one after another, as any `FrameStepper`; `create_engine` gives each a tick
    of its own. A slot's bits are those of a stepper of a bank's size.

    Args:
        make: makes a bank of so many slots.
        slots: of all banks together; a multiple of `banks`.
        row_by_row: each further call makes a bank's step longer.
    """

    def __init__(
        self, make: Callable[[int], S], slots: int, banks: int, *, row_by_row: bool = False
    ) -> None:
        if slots % banks:
            raise ValueError(f"{slots} slots cannot be cut into {banks} banks")
        self.banks = tuple(make(slots // banks) for _ in range(banks))
        self._rows = slots // banks
        self.row_by_row = row_by_row

    @property
    def slots(self) -> int:
        return self._rows * len(self.banks)

    @property
    def info(self) -> StepperInfo:
        return self.banks[0].info

    def check(self, spec: SessionSpec) -> None:
        self.banks[0].check(spec)

    def open(self, slot: int, spec: SessionSpec) -> Iterator[None]:
        bank, row = divmod(slot, self._rows)
        return self.banks[bank].open(row, spec)

    def step(self, pcm: Pcm, live: Mask) -> StepResult:
        """As `FrameStepper.step`; banks in which nobody is live are left out."""
        said = np.zeros((self.slots, FRAME_SAMPLES), np.float32)
        text: dict[int, str] = {}
        failed: dict[int, str] = {}
        held: set[int] = set()
        lost: set[int] = set()
        for index, bank in enumerate(self.banks):
            first = index * self._rows
            rows = slice(first, first + self._rows)
            if not live[rows].any():
                continue
            result = bank.step(pcm[rows], live[rows])
            said[rows] = result.pcm
            text |= {first + row: shown for row, shown in result.text.items()}
            failed |= {first + row: reason for row, reason in result.failed.items()}
            held |= {first + row for row in result.held}
            lost |= {first + row for row in result.lost}
        return StepResult(said, text, failed, frozenset(held), frozenset(lost))

    def close(self, slot: int) -> str:
        bank, row = divmod(slot, self._rows)
        return self.banks[bank].close(row)

    def shutdown(self) -> None:
        for bank in self.banks:
            bank.shutdown()


class MeasurableBanks(BankedStepper[M]):
    """Banks whose steps can be timed: all of them are to fit one frame, one after another."""

    full_tick: TickTimes | None = None
    """How long that takes with full windows, where it was measured."""

    def rehearse(self) -> None:
        """As `Measurable.rehearse`, of every bank."""
        for bank in self.banks:
            bank.rehearse()
