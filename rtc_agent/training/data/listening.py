"""Simulated conversations to listen to, with what is said in them and when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.training.data.archive import DemoData
from rtc_agent.training.data.augment import Line
from rtc_agent.training.data.batch import FRAME_RATE, FRAMES, SAMPLE_RATE, Samples
from rtc_agent.training.data.conversations import Conversations, compose
from rtc_agent.training.data.script import Script


@dataclass(frozen=True, slots=True)
class Recorded:
    """Conversations one after another."""

    samples: Samples
    """[samples, 2]: caller as the agent hears it, agent."""
    lines: tuple[str, ...]
    """What is said, with seconds from the start."""


class _Words:
    """Keeps each text as one id, so that it can be shown as it was."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode(self, text: str, /) -> list[int]:
        self.texts.append(text)
        return [len(self.texts) - 1]


def simulate(data: DemoData, conversations: int, seed: int) -> Recorded:
    """Draw conversations and the lines they come by.

    Raises:
        ConfigError: a synthesiser is missing.
    """
    words = _Words()
    rng = np.random.default_rng(seed)
    source = Conversations(data.book, data.pool(), words)
    scripts = [source.script(rng) for _ in range(conversations)]
    batch = compose(scripts, data.book)
    heard, _ = Line()(batch.caller, batch.agent, torch.Generator().manual_seed(seed))
    tracks = torch.stack((heard.flatten(), batch.agent.flatten()), dim=1)
    lines: list[str] = []
    for number, script in enumerate(scripts):
        lines += _told(script, data, words.texts, number * FRAMES / FRAME_RATE)
    return Recorded(tracks.numpy(), tuple(lines))


def _told(script: Script, data: DemoData, texts: list[str], start: float) -> list[str]:
    events = [
        (line.onset / SAMPLE_RATE, f"agent: {data.book.sentences[line.sentence].text}")
        for line in script.lines
    ]
    frame_s = FRAME_SAMPLES / SAMPLE_RATE
    events += [(first * frame_s, f"caller: {texts[ids[0]]}") for first, _, ids in script.words]
    events += [(sound.onset / SAMPLE_RATE, "a sound") for sound in script.sounds]
    return [f"{start + at:8.2f} {what}" for at, what in sorted(events)]
