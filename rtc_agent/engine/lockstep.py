"""Steppers of lock-step models: PersonaPlex, Moshi, and small models of their shape."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch

from rtc_agent.engine.capacity import TickTimes
from rtc_agent.engine.prefix_cache import PrefixCache
from rtc_agent.engine.stepper import (
    FRAME_SAMPLES,
    REFERENCE_DRAWS,
    Draws,
    Mask,
    Pcm,
    SessionSpec,
    StepperInfo,
    StepResult,
)
from rtc_agent.errors import InvalidPersona, UnknownVoice
from rtc_agent.model.backend import Backend, backend_for
from rtc_agent.model.frame_model import FrameModel
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.opening import Opening, encode_clip, run_plan
from rtc_agent.model.persona import (
    TextEncoder,
    clean_persona,
    fitting_chars,
    followed_persona,
    persona_ids,
)
from rtc_agent.model.precision import use_exact_float32
from rtc_agent.model.prompts import Voice, VoiceClip, plan_prompt
from rtc_agent.model.sampling import check_sampling, is_greedy
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.talker import TalkerModel
from rtc_agent.model.weights import LmWeights


class TextStream(Protocol):
    """A session's text ids to text: `rtc_agent.model.detokenizer.Detokenizer`."""

    def push(self, id: int, /) -> str:
        """The text that became showable with this id."""
        ...

    def flush(self) -> str:
        """What was still held back, at the end of the session."""
        ...


class VoiceSource(Protocol):
    """The voices a session may open with: `rtc_agent.model.voices.VoiceLibrary`."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def default(self) -> str | None:
        """The voice of a session that names none; None: such a session has no voice prompt."""
        ...

    @property
    def samples(self) -> Mapping[str, str]:
        """Name → a WAV file with a short listen, of voices that have one."""
        ...

    def load(self, name: str) -> Voice:
        """The voice's prompt; `name` is one of `names`."""
        ...


def fresh_seed() -> int:
    """A seed for a session that names none."""
    return secrets.randbits(64)


class NoVoices:
    """The voices of a model that has none."""

    names: tuple[str, ...] = ()
    default: str | None = None
    samples: Mapping[str, str] = MappingProxyType({})

    def load(self, name: str) -> Voice:
        raise UnknownVoice(f"There is no voice {name!r}; this agent has none to choose from.")


@dataclass(frozen=True, slots=True)
class LockstepParts:
    """What a lock-step stepper is made of besides its sizes."""

    spec: ModelSpec
    lm: LmWeights
    mimi: MimiWeights
    text_encoder: TextEncoder | None
    """Persona to ids; None if the model takes no persona."""
    text_stream: Callable[[], TextStream]
    """A new text stream for a session."""
    voices: VoiceSource
    agent: str
    description: str
    draws: Draws = REFERENCE_DRAWS
    """How a session draws its tokens that chooses nothing else."""
    names: tuple[str, ...] | None = None
    """All of a persona that a model of a closed domain follows; None: it may be anything."""


NOT_FINITE = "the model's numbers for this call are no longer finite"
Bank = TypeVar("Bank", bound=TalkerModel)


@dataclass(slots=True)
class Session:
    """A slot's session, once it is ready to be stepped."""

    text: TextStream
    greedy: bool
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Turn(Generic[Bank]):
    """One bank's share of a step."""

    bank: Bank
    slots: range
    running: Sequence[int]
    """Slots of it that take part."""
    mask: Mask
    """[rows] the same, by row."""
    greedy: bool
    """Whether all of them are."""

    @property
    def rows(self) -> slice:
        """The bank's rows of a step's samples."""
        return slice(self.slots.start, self.slots.stop)


class LockstepSessions(Generic[Bank]):
    """Sessions of a lock-step model: all of a stepper but its step.

    The batch is cut into banks of fixed size that are computed one after another, and only those in
    which someone is live. A bank's shapes never change, so neither do a session's bits.

    Args:
        slots: sessions held at once.
        bank_rows: rows a bank, a divisor of `slots`; None lets the device decide: all of them on a
            GPU, as far as one model takes them, since weights are read once for the whole batch;
            one on a CPU, so that a call's bits are the same however many a server was started for,
            and those of an offline run.
        prefill_chunk: positions of a prompt that one piece of opening work runs.
        prefix_bytes: how much of kept prompts to hold.
        prefixes: prompts kept together with other steppers over the same weights, instead.
        random_seed: chooses a seed for a session that names none.
        backend: who computes; None is the device's best.
    """

    def __init__(
        self,
        parts: LockstepParts,
        slots: int,
        *,
        bank_rows: int | None = None,
        prefill_chunk: int | None = None,
        prefix_bytes: int = 2 * 2**30,
        prefixes: PrefixCache | None = None,
        random_seed: Callable[[], int] = fresh_seed,
        backend: Backend | None = None,
    ) -> None:
        self._parts = parts
        self._device = parts.lm.device
        on_cpu = self._device.type == "cpu"
        use_exact_float32()
        self._backend = backend = backend or backend_for(self._device)
        rows = bank_rows or self.usual_bank_rows(self._device, slots, backend)
        if slots < 1 or slots % rows:
            raise ValueError(f"{slots} slots cannot be cut into banks of {rows}")
        self._bank_rows = rows
        self._chunk = prefill_chunk or (16 if on_cpu else 64)
        # A frame through the encoder takes about as long as sixteen positions of a prompt.
        self._clip_frames = max(1, self._chunk // 16)
        self._random_seed = random_seed
        self._persona_max_ids = max(64, parts.spec.lm.window // 3)
        self.prefixes = PrefixCache(prefix_bytes) if prefixes is None else prefixes
        if not on_cpu:
            # What loading worked with would stand beside the rings for good.
            torch.cuda.empty_cache()
        with torch.inference_mode():
            self.banks = [self._make_bank(backend, rows) for _ in range(slots // rows)]
            self.banks[0].warm_up(self._chunk)
            self._clip_encoder = backend.encoder(parts.spec.mimi, parts.mimi, 1)
        self._sessions: dict[int, Session] = {}
        takes_prompts = parts.spec.family.takes_prompts
        self._takes_persona = takes_prompts and parts.text_encoder is not None
        persona_chars = 0
        if self._takes_persona and parts.text_encoder is not None:
            persona_chars = fitting_chars(parts.text_encoder, self._persona_max_ids)
        self._info = StepperInfo(
            agent=parts.agent,
            description=parts.description,
            voices=parts.voices.names if takes_prompts else (),
            default_voice=parts.voices.default if takes_prompts else None,
            voice_samples=dict(parts.voices.samples) if takes_prompts else {},
            takes_persona=self._takes_persona,
            follows_persona=parts.names is None or bool(parts.names),
            persona_names=parts.names or (),
            persona_max_chars=persona_chars,
            latency_frames=1 + self._held_frames(),
            held_frames=self._held_frames(),
        )
        self._slots = slots
        self.full_tick: TickTimes | None = None
        """How long a tick with full windows takes, where that was measured."""

    @staticmethod
    def usual_bank_rows(device: torch.device, slots: int, backend: Backend | None) -> int:
        """Rows of a bank where nobody says how many."""
        if device.type == "cpu":
            return 1
        return _largest_bank(slots, (backend or backend_for(device)).max_rows)

    @property
    def slots(self) -> int:
        return self._slots

    @property
    def info(self) -> StepperInfo:
        return self._info

    def check(self, spec: SessionSpec) -> None:
        """As `FrameStepper.check`; also refuses sampling settings that no draw can follow."""
        check_sampling(spec.sampling)
        self._prompt_key(spec)

    def keeps(self, spec: SessionSpec) -> bool:
        """As `KeepingStepper.keeps`."""
        voice, persona = self._prompt_key(spec)
        return (voice is None and not persona) or (voice, persona) in self.prefixes

    def open(self, slot: int, spec: SessionSpec) -> Iterator[None]:
        """As `FrameStepper.open`: the prompt in chunks, or nothing but a copy if it is kept."""
        if not 0 <= slot < self._slots or slot in self._sessions:
            raise ValueError(f"slot {slot} is not a free one")
        self.check(spec)
        return self._open(slot, spec)

    def _open(self, slot: int, spec: SessionSpec) -> Iterator[None]:
        voice, persona = self._prompt_key(spec)
        bank, row = self._place(slot)
        opening = None
        if voice is not None or persona:
            opening = self.prefixes.get((voice, persona))
            if opening is None:
                opening = yield from self._settled(bank, self._run_prompt(voice, persona))
                self.prefixes.put((voice, persona), opening)
        sampling = spec.sampling.filled(self._parts.draws)
        seed = self._random_seed() if sampling.seed is None else sampling.seed
        with torch.inference_mode():
            bank.open(row, sampling, seed, opening)
        bank.settle()
        yield
        self._sessions[slot] = Session(self._parts.text_stream(), is_greedy(sampling))
        self._opened(slot, after_prompt=opening is not None)

    def _make_bank(self, backend: Backend, rows: int) -> Bank:
        raise NotImplementedError

    def _held_frames(self) -> int:
        """Frames that are held back before they are given out."""
        return 0

    def _opened(self, slot: int, *, after_prompt: bool) -> None:
        """A slot is ready to be stepped."""

    def _rehearse_bank(self, bank: Bank, silence: Pcm, nobody: Mask) -> None:
        raise NotImplementedError

    def _turns(self, live: Mask) -> Iterator[Turn[Bank]]:
        """The banks in which someone takes part, sessions that have failed left out."""
        for slot in np.flatnonzero(live).tolist():
            if slot not in self._sessions:
                raise ValueError(f"slot {slot} is stepped but not open")
        for index, bank in enumerate(self.banks):
            slots = range(index * self._bank_rows, (index + 1) * self._bank_rows)
            running = [s for s in slots if live[s] and self._sessions[s].failed is None]
            if running:
                mask = np.zeros(len(slots), dtype=np.bool_)
                mask[[s - slots.start for s in running]] = True
                greedy = all(self._sessions[s].greedy for s in running)
                yield Turn(bank, slots, running, mask, greedy)

    def _failures(self, live: Mask) -> dict[int, str]:
        """Why those of the live slots that have failed did."""
        return {
            slot: reason
            for slot in np.flatnonzero(live).tolist()
            if (reason := self._sessions[slot].failed) is not None
        }

    def rehearse(self) -> None:
        """A tick of all banks, every row's window full; for measuring, while no slot is open.

        Raises:
            ValueError: one is.
        """
        if self._sessions:
            raise ValueError("a rehearsal would spoil the sessions that are open")
        rows, window = self._bank_rows, self._parts.spec.lm.window
        silence = np.zeros((rows, FRAME_SAMPLES), dtype=np.float32)
        # Rows that sit out are computed as live ones are, but their state stays.
        nobody = np.zeros(rows, dtype=np.bool_)
        with torch.inference_mode():
            for bank in self.banks:
                positions = bank.positions()
                for position in positions:
                    position.fill_(window)
                self._rehearse_bank(bank, silence, nobody)
                for position in positions:
                    position.zero_()

    def close(self, slot: int) -> str:
        """As `FrameStepper.close`."""
        session = self._sessions.pop(slot, None)
        return session.text.flush() if session is not None else ""

    def shutdown(self) -> None:
        """As `FrameStepper.shutdown`."""
        self._sessions.clear()
        self.prefixes.clear()
        self.banks.clear()

    @staticmethod
    def _settled(
        bank: Bank, pieces: Generator[None, None, Opening]
    ) -> Generator[None, None, Opening]:
        """The pieces, each over when its device is done with it: what is only asked for would
        still stand before the next tick."""
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                opening: Opening = end.value
                return opening
            bank.settle()
            yield

    def _place(self, slot: int) -> tuple[Bank, int]:
        return self.banks[slot // self._bank_rows], slot % self._bank_rows

    def _prompt_key(self, spec: SessionSpec) -> tuple[str | None, tuple[int, ...]]:
        voices, name = self._info.voices, spec.voice
        if name is not None and name not in voices:
            there = f"there are {', '.join(voices)}" if voices else "this agent has none"
            raise UnknownVoice(f"There is no voice {name!r}; {there}.")
        voice = name if name is not None else self._info.default_voice
        encoder = self._parts.text_encoder
        if not self._takes_persona or encoder is None:
            if clean_persona(spec.persona) is not None:
                raise InvalidPersona(f"The agent {self._info.agent!r} takes no persona.")
            return voice, ()
        names = self._parts.names
        persona = followed_persona(spec.persona, names) if names else spec.persona
        return voice, tuple(persona_ids(encoder, persona, self._persona_max_ids))

    def _run_prompt(
        self, name: str | None, persona: tuple[int, ...]
    ) -> Generator[None, None, Opening]:
        voice = None if name is None else self._parts.voices.load(name)
        if isinstance(voice, VoiceClip):
            voice = yield from encode_clip(self._clip_encoder, voice, self._clip_frames)
        plan = plan_prompt(self._parts.spec, voice, persona)
        temporal = self.banks[0].lm.temporal
        self.prefixes.make_room(temporal.prefix_nbytes(plan.length))
        return (yield from run_plan(temporal, plan, self._chunk))


class LockstepStepper(LockstepSessions[FrameModel]):
    """`FrameStepper` over a lock-step model, all of it one step."""

    def step(self, pcm: Pcm, live: Mask) -> StepResult:
        """As `FrameStepper.step`."""
        said = np.zeros((self._slots, FRAME_SAMPLES), dtype=np.float32)
        text: dict[int, str] = {}
        for turn in self._turns(live):
            with torch.inference_mode():
                frame = turn.bank.step(pcm[turn.rows], turn.mask, greedy=turn.greedy)
            for slot in turn.running:
                row = slot - turn.slots.start
                session = self._sessions[slot]
                if not frame.healthy[row]:
                    session.failed = NOT_FINITE
                    continue
                said[slot] = frame.pcm[row]
                if shown := session.text.push(frame.text[row]):
                    text[slot] = shown
        return StepResult(said, text, self._failures(live))

    def _make_bank(self, backend: Backend, rows: int) -> FrameModel:
        return backend.frame_model(self._parts.spec, self._parts.lm, self._parts.mimi, rows)

    def _rehearse_bank(self, bank: FrameModel, silence: Pcm, nobody: Mask) -> None:
        bank.step(silence, nobody)


def _largest_bank(slots: int, most: int) -> int:
    """The largest divisor of `slots` that one model takes."""
    return next(rows for rows in range(min(slots, most), 0, -1) if slots % rows == 0)
