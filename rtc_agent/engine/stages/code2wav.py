"""Code2wav's side: obeys the talker, message by message, until the talker is gone.

Messages come over a pipe, codes and sound go through shared memory. After every decoded frame it
says how many jobs are done, so whoever waits for sound need not look again and again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import torch

from rtc_agent.engine.stages.memory import StageMemory
from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm
from rtc_agent.errors import RtcAgentError
from rtc_agent.model.code2wav import Code2WavModel
from rtc_agent.model.spec import CODEBOOKS

log = logging.getLogger(__name__)

MakeBank = Callable[[], Code2WavModel]
"""Makes one more bank of a codec that is loaded."""


@dataclass(frozen=True, slots=True)
class Open:
    """A slot has a new session, or this code2wav has it to take over."""

    slot: int
    generation: int
    after_prompt: bool
    """Whether its state begins as after a prompt's silence."""


class Stretch(NamedTuple):
    """Frames of one session, in order."""

    slot: int
    generation: int
    first: int
    frames: int


@dataclass(frozen=True, slots=True)
class Decode:
    """A job: the codes are in the memory, the sound goes there."""

    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class Rehearse:
    """A job: a frame of all banks with every window full; no session is open."""

    frames: int
    window: int


Message = Open | Decode | Rehearse


@dataclass(frozen=True, slots=True)
class Refusal:
    """Said instead of being ready: why it cannot work here."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """How many jobs are done, of all that were given."""

    jobs: int


def serve(
    connection: Connection, memory: StageMemory, load: Callable[[], MakeBank], banks: int
) -> None:
    """Load the codec, make the banks, say `Done(0)`, and work until the other end is closed.

    Args:
        banks: how many; slots are cut into them in order.
    """
    try:
        make = load()
        with torch.inference_mode():
            models = [make() for _ in range(banks)]
    except RtcAgentError as error:
        connection.send(Refusal(error.message))
        return
    worker = _Worker(connection, memory, models)
    try:
        connection.send(Done(0))
        while True:
            message: Message = connection.recv()
            with torch.inference_mode():
                worker.obey(message)
    except (EOFError, ConnectionError):
        return


class _Worker:
    def __init__(
        self, connection: Connection, memory: StageMemory, banks: Sequence[Code2WavModel]
    ) -> None:
        self._connection = connection
        self._memory = memory
        self._banks = banks
        self._rows = banks[0].rows
        self._generations = [-1] * (len(banks) * self._rows)
        self._jobs = 0

    def obey(self, message: Message) -> None:
        match message:
            case Open():
                bank, row = divmod(message.slot, self._rows)
                self._banks[bank].open(row, after_prompt=message.after_prompt)
                self._generations[message.slot] = message.generation
            case Decode():
                self._decode(message.stretches)
            case Rehearse():
                self._rehearse(message)

    def _decode(self, stretches: Sequence[Stretch]) -> None:
        """All stretches side by side, so that one call of a bank serves all its rows."""
        longest = max((s.frames for s in stretches), default=0)
        for step in range(longest):
            by_bank: dict[int, list[tuple[Stretch, int]]] = {}
            for stretch in stretches:
                if step < stretch.frames:
                    by_bank.setdefault(stretch.slot // self._rows, []).append(
                        (stretch, stretch.first + step)
                    )
            for bank, frames in by_bank.items():
                self._decode_bank(bank, frames)
            if step + 1 < longest:
                self._connection.send(Done(self._jobs))
        self._jobs += 1
        self._connection.send(Done(self._jobs))

    def _decode_bank(self, bank: int, frames: Sequence[tuple[Stretch, int]]) -> None:
        codes = np.zeros((self._rows, CODEBOOKS), np.int64)
        speaking = np.zeros(self._rows, np.bool_)
        for stretch, frame in frames:
            row = stretch.slot % self._rows
            there, given = self._memory.codes(stretch.slot, stretch.generation, frame)
            if not there or self._generations[stretch.slot] != stretch.generation:
                log.warning("codes came too late to be decoded; slot %d", stretch.slot)
            elif given is not None:
                codes[row], speaking[row] = given, True
            else:
                # The single stage gives silence here, and its decoder does not move.
                self._memory.put_sound(stretch.slot, stretch.generation, frame, _SILENCE, True)
        if not speaking.any():
            return
        sound = self._banks[bank].decode(codes, speaking)
        for stretch, frame in frames:
            row = stretch.slot % self._rows
            if speaking[row]:
                self._memory.put_sound(
                    stretch.slot, stretch.generation, frame, sound.pcm[row], sound.finite[row]
                )

    def _rehearse(self, message: Rehearse) -> None:
        codes = np.zeros((self._rows, CODEBOOKS), np.int64)
        nobody = np.zeros(self._rows, np.bool_)
        for bank in self._banks:
            bank.speaking.position.fill_(message.window)
            for _ in range(message.frames):
                bank.decode(codes, nobody)
            bank.speaking.position.zero_()
            self._connection.send(Done(self._jobs))
        self._jobs += 1
        self._connection.send(Done(self._jobs))


_SILENCE: Pcm = np.zeros(FRAME_SAMPLES, np.float32)
