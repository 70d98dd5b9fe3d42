"""The stepper whose sound is made apart: talker here, code2wav on another device or process.

A frame's codes go to code2wav as soon as its bank has them, so the sound of one bank is made while
the next one talks. `step` waits for the sound; `begin` does not, so that the next tick's talking
need not wait for this one's sound.

Sound is decoded in chunks, which end in the same tick for all sessions: a session's first chunk as
soon as it is complete, all later ones every `codec_chunk_frames` ticks. A frame and its text are
given out together, when its chunk can have been decoded: the first chunk's at once, later ones
`codec_chunk_frames` − 1 ticks after their codes, whatever tick the session began in.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from rtc_agent.engine.lockstep import (
    NOT_FINITE,
    LockstepParts,
    LockstepSessions,
    Session,
    Turn,
    fresh_seed,
)
from rtc_agent.engine.stages.code2wav import Rehearse, Stretch
from rtc_agent.engine.stages.link import Code2WavLink, Mark, Wanted
from rtc_agent.engine.stages.settings import StageSettings
from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES, Mask, Pcm, StepResult
from rtc_agent.model.backend import Backend
from rtc_agent.model.talker import TalkerModel

PATIENCE_S = 2 * FRAME_S
"""What a live call waits for its sound before it goes on without."""


class _Frame(NamedTuple):
    """A frame on its way: its text goes out with its sound."""

    slot: int
    generation: int
    number: int
    text: str
    session: Session


@dataclass(slots=True)
class _Voice:
    """How far a session's sound is."""

    generation: int
    talked: int = 0
    asked: int = 0
    waiting: deque[_Frame] = field(default_factory=deque)
    """Frames that were talked and not given out yet."""


@dataclass(frozen=True, slots=True)
class _Due:
    """What one tick is to give out."""

    frames: Sequence[_Frame]
    held: frozenset[int]
    failed: dict[int, str]
    live: Mask
    since: Mark


class StagedStepper(LockstepSessions[TalkerModel]):
    """As `LockstepStepper`, with code2wav at the other end of a link.

    The same frames, sampling and seed give the same sound, bit for bit, and the same text, as the
    single stage does; `StepperInfo.held_frames` ticks later once chunks are longer than a frame.
    """

    def __init__(
        self,
        parts: LockstepParts,
        slots: int,
        stages: StageSettings,
        connect: Callable[[int], Code2WavLink],
        *,
        bank_rows: int | None = None,
        prefill_chunk: int | None = None,
        prefix_bytes: int = 2 * 2**30,
        random_seed: Callable[[], int] = fresh_seed,
        backend: Backend | None = None,
    ) -> None:
        """
        Args:
            connect: starts a code2wav whose banks have so many rows; it loads while this does.

        Raises:
            StageFailed: code2wav cannot be had.
        """
        self._stages = stages
        rows = bank_rows or self.usual_bank_rows(parts.lm.device, slots, backend)
        self._link = connect(rows)
        try:
            super().__init__(
                parts,
                slots,
                bank_rows=rows,
                prefill_chunk=prefill_chunk,
                prefix_bytes=prefix_bytes,
                random_seed=random_seed,
                backend=backend,
            )
            self._link.wait_ready()
        except BaseException:
            self._link.shutdown()
            raise
        self._voices: dict[int, _Voice] = {}
        self._generation = 0
        self._tick = 0

    @property
    def link(self) -> Code2WavLink:
        return self._link

    def step(self, pcm: Pcm, live: Mask) -> StepResult:
        """As `FrameStepper.step`; waits for the sound as long as code2wav works."""
        return self._give_out(self._talk(pcm, live), math.inf)

    def begin(self, pcm: Pcm, live: Mask) -> Callable[[], StepResult]:
        """As `PipelinedStepper.begin`."""
        due = self._talk(pcm, live)
        return lambda: self._give_out(due, PATIENCE_S)

    def close(self, slot: int) -> str:
        if self._voices.pop(slot, None) is not None:
            self._link.close(slot)
        return super().close(slot)

    def rehearse(self) -> None:
        """As `LockstepSessions.rehearse`, both stages at the same time."""
        job = Rehearse(self._stages.codec_chunk_frames, self._parts.spec.mimi.transformer_window)
        self._link.rehearse(job)
        super().rehearse()
        self._link.drain()

    def shutdown(self) -> None:
        super().shutdown()
        self._voices.clear()
        self._link.shutdown()

    def _make_bank(self, backend: Backend, rows: int) -> TalkerModel:
        return backend.talker(self._parts.spec, self._parts.lm, self._parts.mimi, rows)

    def _rehearse_bank(self, bank: TalkerModel, silence: Pcm, nobody: Mask) -> None:
        bank.talk_step(silence, nobody)

    def _held_frames(self) -> int:
        return self._stages.held_frames

    def _opened(self, slot: int, *, after_prompt: bool) -> None:
        self._generation += 1
        self._voices[slot] = _Voice(self._generation)
        self._link.open(slot, self._generation, after_prompt=after_prompt)

    def _talk(self, pcm: Pcm, live: Mask) -> _Due:
        """Run the talker, and hand its codes over."""
        self._link.check()
        since = self._link.mark()
        self._tick += 1
        ends = self._tick % self._stages.codec_chunk_frames == 0
        frames: list[_Frame] = []
        held: set[int] = set()
        for turn in self._turns(live):
            running = self._talk_bank(turn, pcm)
            if stretches := self._chunks(turn.slots, ends):
                self._link.submit(stretches)
            for slot in running:
                if (frame := self._due(self._voices[slot])) is None:
                    held.add(slot)
                else:
                    frames.append(frame)
        return _Due(frames, frozenset(held), self._failures(live), live.copy(), since)

    def _talk_bank(self, turn: Turn[TalkerModel], pcm: Pcm) -> list[int]:
        """Talk, and write codes into the memory; the slots that have a frame."""
        with torch.inference_mode():
            talk = turn.bank.talk_step(pcm[turn.rows], turn.mask, greedy=turn.greedy)
        running = []
        for slot in turn.running:
            row = slot - turn.slots.start
            session, voice = self._sessions[slot], self._voices[slot]
            if not talk.healthy[row]:
                session.failed = NOT_FINITE
                continue
            codes = talk.codes[row].astype(np.int32) if talk.speaking[row] else None
            self._link.memory.put_codes(slot, voice.generation, voice.talked, codes)
            text = session.text.push(talk.text[row])
            voice.waiting.append(_Frame(slot, voice.generation, voice.talked, text, session))
            voice.talked += 1
            running.append(slot)
        return running

    def _chunks(self, slots: Sequence[int], ends: bool) -> list[Stretch]:
        """What of these slots is to be decoded now."""
        found = []
        for slot in slots:
            voice = self._voices.get(slot)
            if voice is None or voice.talked == voice.asked:
                continue
            if ends or voice.talked == self._stages.initial_codec_chunk_frames:
                frames = voice.talked - voice.asked
                found.append(Stretch(slot, voice.generation, voice.asked, frames))
                voice.asked = voice.talked
        return found

    def _due(self, voice: _Voice) -> _Frame | None:
        """The frame that goes out this tick."""
        frame = voice.waiting[0]
        initial = self._stages.initial_codec_chunk_frames
        late = initial - 1 if frame.number < initial else self._stages.held_frames
        if voice.talked - 1 < frame.number + late:
            return None
        return voice.waiting.popleft()

    def _give_out(self, due: _Due, patience_s: float) -> StepResult:
        """Wait for the sound that is due; with what has none."""
        wanted = [Wanted(f.slot, f.generation, f.number) for f in due.frames]
        self._link.collect(wanted, due.since, patience_s)
        said = np.zeros((self._slots, FRAME_SAMPLES), dtype=np.float32)
        text: dict[int, str] = {}
        failed = dict(due.failed)
        lost = set()
        for frame in due.frames:
            sound = self._link.memory.sound(frame.slot, frame.generation, frame.number)
            if sound is not None and not sound.finite:
                failed[frame.slot] = frame.session.failed = NOT_FINITE
                continue
            if sound is None:
                lost.add(frame.slot)
            else:
                said[frame.slot] = sound.pcm
            if frame.text:
                text[frame.slot] = frame.text
        return StepResult(said, text, failed, due.held, frozenset(lost))
