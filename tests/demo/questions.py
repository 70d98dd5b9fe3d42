"""What the packaged demo agent is asked, by a voice it never heard, and what it must answer.

`tests/data/demo-questions.ogg` and `.json` hold the questions; the first one is asked in calls.
`python -m tests.demo.render` speaks them anew, for other weights or other questions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rtc_agent.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE, Pcm, SamplingSpec, SessionSpec

if TYPE_CHECKING:
    from rtc_agent.training.evaluation.recognition import SentenceChooser

RECORDED = Path(__file__).parents[1] / "data" / "demo-questions"
GREEDY = SessionSpec(sampling=SamplingSpec(greedy=True))
BEGINS_S = 4.4
"""When a caller begins: the greeting is over."""
ANSWER_S = 2.6
"""From the question's end until the longest of these answers is out."""

_BLOCK = SAMPLE_RATE // 100
_LOUD = 10 ** (-45 / 20)
_PAUSE_BLOCKS, _LEAST_BLOCKS = 60, 30
"""Of 10 ms: between two sentences, and of the shortest one."""


class Question:
    """One question as it is asked, and the sentences that are right."""

    def __init__(self, samples: Pcm, said: str, intent: str) -> None:
        from rtc_agent.training.data.texts.intents import demo_domain

        self.samples = samples
        self.said = said
        self.answers = frozenset(demo_domain().intents[intent].replies)

    def asked(self, begins_s: float = BEGINS_S) -> Pcm:
        """[frames, FRAME_SAMPLES]: the caller's side from the call's first frame on."""
        begins = round(begins_s * SAMPLE_RATE)
        samples = begins + len(self.samples) + round(ANSWER_S * SAMPLE_RATE)
        track = np.zeros(-(-samples // FRAME_SAMPLES) * FRAME_SAMPLES, np.float32)
        track[begins : begins + len(self.samples)] = self.samples
        return track.reshape(-1, FRAME_SAMPLES)

    def answered_by(self, text: str) -> bool:
        """Whether what the agent said ends with a right answer, whatever it said before."""
        return any(text.strip().endswith(answer) for answer in self.answers)

    def answered_in(self, sound: Pcm) -> bool:
        """Whether a right answer is among what is heard."""
        from rtc_agent.training.evaluation.recognition import plain_words

        return bool({plain_words(answer) for answer in self.answers} & set(sentences_in(sound)))


@cache
def questions() -> tuple[Question, ...]:
    """All of them."""
    from rtc_agent.training.data.pool import Recordings

    recorded = Recordings.load(RECORDED).utterances
    return tuple(Question(u.samples, u.text, u.intent or "") for u in recorded)


def sentences_in(sound: Pcm) -> list[str]:
    """What a recogniser that knows the agent's sentences, and nothing of the agent, hears in
    24 kHz sound: one of them for each stretch between pauses."""
    chooser = _chooser()
    return [chooser.choose(part) for part in _stretches(sound)]


@cache
def _chooser() -> SentenceChooser:
    from rtc_agent.training.data.texts.intents import demo_domain
    from rtc_agent.training.evaluation.recognition import SentenceChooser

    return SentenceChooser([sentence for sentence, _ in demo_domain().replies()])


def _stretches(sound: Pcm) -> Iterator[Pcm]:
    blocks = sound[: len(sound) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    loud = np.flatnonzero(np.sqrt(np.square(blocks).mean(1)) > _LOUD)
    for run in np.split(loud, np.flatnonzero(np.diff(loud) > _PAUSE_BLOCKS) + 1):
        if len(run) > _LEAST_BLOCKS:
            yield sound[run[0] * _BLOCK : (run[-1] + 1) * _BLOCK]
