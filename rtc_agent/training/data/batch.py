"""What the simulator hands to training: whole conversations as tensors, and whence they come.

Everything counts in frames of 80 ms (1,920 samples at 24 kHz). A conversation is `FRAMES` frames:
first the prompt, laid out as `rtc_agent.model.prompts.plan_prompt` does at run time, then the live
call. Waveforms hold the live call alone and start with its first frame, because the codec starts
afresh there; so frame `f` of a waveform is frame `prompt_frames + f` of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rtc_agent.engine.stepper import FRAME_SAMPLES

SAMPLE_RATE = 24_000
FRAME_RATE = SAMPLE_RATE / FRAME_SAMPLES
FRAMES = 800
"""Frames of a conversation: 64 s, prompt included."""
IGNORE = -1
"""Where a class or a token has nothing to say."""

Samples = npt.NDArray[np.float32]
"""Mono at 24 kHz, within ±1."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One thing the agent says, in its one rendering."""

    text: str
    samples: Samples
    """At −24 LUFS, trimmed to the speech."""
    onsets: tuple[float, ...]
    """Seconds from the start of `samples` at which each blank-separated word of `text` begins."""
    reply: str
    """The reply class it belongs to; a class of several sentences is answered with any of them."""


class AgentBook(Protocol):
    """Everything the agent says."""

    @property
    def sentences(self) -> Sequence[Sentence]: ...

    @property
    def replies(self) -> Sequence[str]:
        """Reply classes in a fixed order: number `i` of `ConversationBatch.reply` is `replies[i]`.

        Number 0 is `"nothing"`: the agent keeps quiet.
        """
        ...


@dataclass(frozen=True, slots=True)
class Utterance:
    """One thing a caller says."""

    samples: Samples
    """Trimmed to the speech, its peak at about −3 dBFS."""
    text: str
    """Lower case words without punctuation."""
    intent: str | None
    """What is asked for; None is out of the agent's domain."""
    speaker: str
    """Synthesiser and voice, e.g. `espeak:en-us+f2`."""


class CallerPool(Protocol):
    """A bounded store of utterances, which worker processes may be filling meanwhile."""

    def __len__(self) -> int: ...

    def draw(self, rng: np.random.Generator) -> Utterance:
        """Any utterance, intents by their weight."""
        ...

    def draw_alike(self, speaker: str, rng: np.random.Generator) -> Utterance:
        """An utterance of that speaker, or of any when it has none left."""
        ...


class Tokenizer(Protocol):
    """The part of `sentencepiece.SentencePieceProcessor` that conversations need."""

    def encode(self, text: str, /) -> list[int]: ...


@dataclass(slots=True)
class ConversationBatch:
    """`n` conversations of `FRAMES` frames."""

    agent: Tensor
    """[n, FRAMES · 1920] float32: the agent alone, from the first live frame, zeros at the end."""
    caller: Tensor
    """[n, FRAMES · 1920] float32: the caller and all that is heard beside, in the same time; dry:
    `augment` adds the room, the line and the noise."""
    text: Tensor
    """[n, FRAMES] int64: the text row, undelayed. In the prompt: persona ids and PAD."""
    prompt_frames: Tensor
    """[n] int64: frames of the prompt, in which no loss is taken. The first live frame comes
    next."""
    voice: Tensor
    """[n] int64: index in `AgentBook.sentences` of the clip the prompt opens with; IGNORE is
    none. Its frames are ⌈samples / 1920⌉: the codes of the zero-padded clip by a fresh codec."""
    voice_frames: Tensor
    """[n] int64: frames of that clip; the prompt's others are silence codes. The user rows of the
    whole prompt are sine codes."""
    text_weight: Tensor
    """[n, FRAMES] float32: weight of the text loss at that frame; 0 in the prompt, 1 in the live
    call, more where the persona's own name is said."""
    speaking: Tensor
    """[n, FRAMES] bool: frames that hold sound of the agent."""
    words: Tensor
    """[n, most words' pieces] int64: ids of all that the caller says, in order; IGNORE past the
    end. Only words that the agent is to hear: babble and the agent's echo are left out."""
    words_count: Tensor
    """[n] int64: ids in each row of `words`."""
    spans: Tensor
    """[n, most utterances, 2] int64: first frame of each utterance and the frame after its last;
    IGNORE past the end."""
    span_words: Tensor
    """[n, most utterances] int64: how many of `words` belong to it; 0 past the end."""
    reply: Tensor
    """[n, FRAMES] int64: between the end of an utterance and the reply to it the reply class
    (`AgentBook.replies`), 0 after sounds that ask for nothing; in the last silence of the prompt,
    and from there to the greeting, the greeting's; IGNORE elsewhere."""

    def to(self, device: torch.device | str) -> ConversationBatch:
        """The same on another device."""
        moved = {f.name: getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)}
        return ConversationBatch(**moved)


class ConversationSource(Protocol):
    """Draws new conversations for ever."""

    def batch(self, n: int, rng: np.random.Generator) -> ConversationBatch:
        """New conversations, on the CPU. All chance is `rng`'s, whose state a training run keeps,
        so that one that is resumed goes on as it would have."""
        ...


class Augment(Protocol):
    """The way from a caller's mouth to the agent's ear: `rtc_agent.training.data.augment`."""

    def __call__(
        self, caller: Tensor, agent: Tensor, chance: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Whole batches at once, on the tensors' device, which `chance` is of too.

        Args:
            caller: [n, samples] dry.
            agent: [n, samples] what the agent says meanwhile, for its echo; zeros for none.

        Returns:
            [n, samples] what is heard; and the same with level, room and line but without noise and
            echo, which is what the codec learns to make of it.
        """
        ...


@dataclass(frozen=True, slots=True)
class EvalCase:
    """One caller's turn, played after the greeting, and what must come of it."""

    samples: Samples
    """The caller's side alone."""
    said: str
    """What the caller says or does, in words."""
    expected: frozenset[str]
    """Sentences that are right; empty: the agent must stay silent."""
    kind: str
    """`in-domain`, `out-of-domain` or `sound`."""
    intent: str | None = None
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class EvalSet:
    """Cases of one condition."""

    name: str
    cases: tuple[EvalCase, ...]
    noise_dbfs: float = -60.0
    """White noise on the caller's side throughout."""
    cut_in: bool = False
    """Whether the caller begins while the agent still says its greeting."""
    persona: str | None = None
    """The persona text of the call."""


class TrainingData(Protocol):
    """Everything that training takes: what `rtc_agent.training.data.open_data(folder)` gives."""

    @property
    def book(self) -> AgentBook: ...

    @property
    def texts(self) -> Sequence[str]:
        """Lines to train the tokenizer on, repeated by how often they are said; personas too."""
        ...

    @property
    def tokenizer(self) -> Path | None:
        """The file of a tokenizer that was made of `texts` already."""
        ...

    @property
    def kinds(self) -> int:
        """Kinds of questions the agent can be asked, for the page."""
        ...

    @property
    def examples(self) -> Sequence[str]:
        """A few of them, as a caller would ask."""
        ...

    @property
    def persona_names(self) -> Sequence[str]:
        """By one of which a persona may call it."""
        ...

    @property
    def greeting(self) -> str:
        """What the agent opens a call without a persona with."""
        ...

    @property
    def still_there(self) -> str:
        """What it says once after a long silence."""
        ...

    def pool(self) -> CallerPool:
        """Utterances as far as they are there; grows while workers fill it."""
        ...

    def source(self, tokenizer: Tokenizer, pool: CallerPool) -> ConversationSource: ...

    def evaluation(self) -> Sequence[EvalSet]:
        """Held-out callers by condition."""
        ...
