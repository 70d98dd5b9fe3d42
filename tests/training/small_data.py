"""A world of three questions, asked and answered in whistles: training data in miniature.

Every sentence, of caller or agent, is a sequence of tones of its own, so that a small codec and a
small model can tell them apart and learn them by heart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rtc_agent.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE
from rtc_agent.training.data.batch import (
    IGNORE,
    ConversationBatch,
    EvalCase,
    EvalSet,
    Samples,
    Sentence,
    Tokenizer,
    Utterance,
)

QUESTIONS = ("one plus one", "a joke", "goodbye")
REPLIES = ("It is two.", "Ha ha.", "Bye.")
GREETING = "Hello."
CLASSES = ("nothing", *REPLIES)
FRAMES = 44
"""Of a conversation."""
GAP = 4
"""Frames between a question's end and its answer's first."""


def whistle(seed: int, frames: int, notes: int, level: float = 0.3) -> Samples:
    """A tune of so many frames and notes that no other seed has."""
    rng = np.random.default_rng(seed)
    time = np.arange(frames * FRAME_SAMPLES // notes) / SAMPLE_RATE
    tones = []
    for _ in range(notes):
        hz = 200 * 2 ** rng.uniform(0, 3.5)
        tones.append(np.sin(2 * np.pi * hz * time) + 0.5 * np.sin(4 * np.pi * hz * time))
    tune = np.concatenate(tones) * level / 1.5
    return tune.astype(np.float32)


@dataclass(frozen=True)
class SmallBook:
    """What the agent says."""

    @property
    def sentences(self) -> Sequence[Sentence]:
        said = []
        for i, text in enumerate((GREETING, *REPLIES)):
            words = text.split()
            tune = whistle(100 + i, 2 * len(words) + 2, notes=4)
            onsets = tuple(2 * k * FRAME_SAMPLES / SAMPLE_RATE for k in range(len(words)))
            said.append(Sentence(text, tune, onsets, text))
        return said

    @property
    def replies(self) -> Sequence[str]:
        return CLASSES


class SmallPool:
    """What callers say: each question in one tune, a little higher or lower."""

    def __len__(self) -> int:
        return len(QUESTIONS)

    def draw(self, rng: np.random.Generator) -> Utterance:
        return asked(int(rng.integers(len(QUESTIONS))))

    def draw_alike(self, speaker: str, rng: np.random.Generator) -> Utterance:
        return self.draw(rng)


def asked(question: int) -> Utterance:
    text = QUESTIONS[question]
    return Utterance(whistle(question, 6, notes=1), text, text, "whistler")


def plain(caller: Tensor, agent: Tensor, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    """A quiet line: a breath of noise."""
    drawn = torch.randn(caller.shape, generator=chance, device=caller.device)
    return caller + 1e-3 * drawn, caller


@dataclass(frozen=True)
class SmallSource:
    """Greeting, a question, its answer, and more as long as there is room."""

    tokenizer: Tokenizer
    pad: int = 3
    prompts: float = 0.3
    """Part of the conversations that open with one."""
    frames: int = FRAMES

    def batch(self, n: int, rng: np.random.Generator) -> ConversationBatch:
        samples = self.frames * FRAME_SAMPLES
        agent, caller = torch.zeros(n, samples), torch.zeros(n, samples)
        text = torch.full((n, self.frames), self.pad)
        speaking = torch.zeros((n, self.frames), dtype=torch.bool)
        reply = torch.full((n, self.frames), IGNORE)
        prompt = torch.zeros(n, dtype=torch.int64)
        weight = torch.ones((n, self.frames))
        voice, voice_frames = torch.full((n,), IGNORE), torch.zeros(n, dtype=torch.int64)
        words: list[list[int]] = []
        spans: list[list[tuple[int, int]]] = []
        counts: list[list[int]] = []
        for row in range(n):
            words.append([])
            spans.append([])
            counts.append([])
            if rng.random() < self.prompts:
                persona = self.tokenizer.encode("<system> Nova <system>")[:8]
                prompt[row] = 12 + len(persona)
                text[row, 6 : 6 + len(persona)] = torch.tensor(persona)
                weight[row, : prompt[row]] = 0
            live = int(prompt[row])
            at = live + int(rng.integers(2, 4))
            at = self._say(0, row, at, live, agent, text, speaking)
            while True:
                begins = at + int(rng.integers(1, 13))
                question = int(rng.integers(len(QUESTIONS)))
                tune = asked(question).samples
                # Callers do not wait for a frame to begin.
                late = int(rng.integers(FRAME_SAMPLES))
                ends = begins + -(-(late + len(tune)) // FRAME_SAMPLES)
                if ends + GAP + 12 > self.frames:
                    break
                start = (begins - live) * FRAME_SAMPLES + late
                caller[row, start : start + len(tune)] = torch.from_numpy(tune)
                ids = self.tokenizer.encode(QUESTIONS[question])
                words[-1] += ids[:6]
                spans[-1].append((begins, ends))
                counts[-1].append(len(ids[:6]))
                reply[row, ends : ends + GAP] = 1 + question
                at = self._say(1 + question, row, ends + GAP, live, agent, text, speaking)
        return ConversationBatch(
            agent=agent,
            caller=caller,
            text=text,
            prompt_frames=prompt,
            voice=voice,
            voice_frames=voice_frames,
            text_weight=weight,
            speaking=speaking,
            words=_padded(words, IGNORE),
            words_count=torch.tensor([len(w) for w in words]),
            spans=_padded([[list(s) for s in row] or [[IGNORE, IGNORE]] for row in spans], IGNORE),
            span_words=_padded([row or [0] for row in counts], 0),
            reply=reply,
        )

    def _say(
        self, index: int, row: int, at: int, live: int, agent: Tensor, text: Tensor, on: Tensor
    ) -> int:
        """Put a sentence at a frame; the frame after its end."""
        sentence = SmallBook().sentences[index]
        start = (at - live) * FRAME_SAMPLES
        tune = torch.from_numpy(sentence.samples)
        agent[row, start : start + len(tune)] = tune
        ids = self.tokenizer.encode(sentence.text)
        text[row, at : at + len(ids)] = torch.tensor(ids)
        frames = len(tune) // FRAME_SAMPLES
        on[row, at : at + frames + 1] = True
        return at + max(frames, len(ids)) + 1


def _padded(rows: Sequence[Sequence[object]], fill: int) -> Tensor:
    longest = max(1, *(len(row) for row in rows))
    first = next((row[0] for row in rows if row), fill)
    filler = [fill] * len(first) if isinstance(first, list) else fill
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])


class WordPieces:
    """A vocabulary of whole words."""

    def __init__(self) -> None:
        said = " ".join((GREETING, *REPLIES, *QUESTIONS, "<system> Nova <system>"))
        self._pieces = ["", "", "", "", *sorted(set(said.split()))]

    def encode(self, text: str, /) -> list[int]:
        return [self._pieces.index(word) for word in text.split() if word in self._pieces]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self._pieces[i] for i in ids if i > 3)

    def vocab_size(self) -> int:
        return len(self._pieces)


@dataclass(frozen=True)
class SmallData:
    """`TrainingData` of all this."""

    prompts: float = 0.0
    book: SmallBook = SmallBook()
    texts: Sequence[str] = (GREETING, *REPLIES, *QUESTIONS, "<system> Nova <system>")
    tokenizer: Path | None = None
    kinds: int = len(QUESTIONS)
    examples: Sequence[str] = QUESTIONS[:2]
    persona_names: Sequence[str] = ("Nova",)
    greeting: str = GREETING
    still_there: str = "Hello."

    def pool(self) -> SmallPool:
        return SmallPool()

    def source(self, tokenizer: Tokenizer, pool: SmallPool) -> SmallSource:
        return SmallSource(tokenizer, prompts=self.prompts)

    def evaluation(self) -> Sequence[EvalSet]:
        cases = tuple(
            EvalCase(asked(i).samples, text, frozenset({REPLIES[i]}), "in-domain", text)
            for i, text in enumerate(QUESTIONS)
        )
        return [EvalSet("whistler", cases)]
