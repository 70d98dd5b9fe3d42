"""The agent's sentences: rendered once by one voice, with the time of every word."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyloudnorm
import soundfile

from rtc_agent.errors import ConfigError
from rtc_agent.training.data.batch import SAMPLE_RATE, Sentence
from rtc_agent.training.data.synthesis.flite import Flite
from rtc_agent.training.data.synthesis.shaping import speech_bounds, to_24k
from rtc_agent.training.data.texts.intents import NOTHING, demo_domain

VOICE = "rms"
"""The voice of the shipped agent. Why this one, and its terms: docs/demo-data.md."""
LOUDNESS = -24.0
"""LUFS of all the sentences together, which is what a voice's clip is brought to at run time."""

_STRETCH = 0.95
_SPOKEN = {"PersonaPlex": "Persona Plex", "baa": "bah"}
"""Words that the synthesiser would read wrongly."""
_AUDIO, _INDEX = "book.flac", "book.json"


class Book:
    """Everything the agent says, as a list and by text.

    Args:
        sentences: no two with the same text.
    """

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.sentences = tuple(sentences)
        self.replies = (NOTHING, *dict.fromkeys(s.reply for s in sentences))
        self._index = {s.text: i for i, s in enumerate(sentences)}
        self._classes = {reply: i for i, reply in enumerate(self.replies)}

    def index(self, text: str) -> int:
        """The number of a sentence; KeyError for one that it lacks."""
        return self._index[text]

    def reply_class(self, index: int) -> int:
        """The number, in `replies`, of a sentence's reply class."""
        return self._classes[self.sentences[index].reply]

    def save(self, folder: Path) -> None:
        """Write it as FLAC of 16 bits and an index."""
        folder.mkdir(parents=True, exist_ok=True)
        samples = np.concatenate([s.samples for s in self.sentences])
        soundfile.write(folder / _AUDIO, samples, SAMPLE_RATE, subtype="PCM_16")
        entries = [
            {"text": s.text, "reply": s.reply, "samples": len(s.samples), "onsets": s.onsets}
            for s in self.sentences
        ]
        (folder / _INDEX).write_text(json.dumps(entries, indent=1))

    @classmethod
    def load(cls, folder: Path) -> Book:
        """Read what `save` wrote.

        Raises:
            ConfigError: it is not there, or audio and index differ in length.
        """
        try:
            entries = json.loads((folder / _INDEX).read_text())
            samples, _ = soundfile.read(folder / _AUDIO, dtype="float32")
        except (OSError, soundfile.LibsndfileError) as error:
            raise ConfigError(f"the agent's book cannot be read: {error}") from error
        ends = list(accumulate(entry["samples"] for entry in entries))
        if not ends or ends[-1] != len(samples):
            raise ConfigError(f"{folder / _AUDIO} and {_INDEX} are not of one making")
        return cls(
            [
                Sentence(
                    e["text"], samples[end - e["samples"] : end], tuple(e["onsets"]), e["reply"]
                )
                for e, end in zip(entries, ends, strict=True)
            ]
        )


def render_book(flite: Flite, said: Iterable[tuple[str, str]] | None = None) -> Book:
    """Let the agent's voice say each sentence once.

    Args:
        flite: with `VOICE` loaded.
        said: sentences with their reply class; None: the whole demo domain.
    """
    rendered = [_render(flite, text, reply) for text, reply in said or demo_domain().replies()]
    meter = pyloudnorm.Meter(SAMPLE_RATE)
    loudness = meter.integrated_loudness(np.concatenate([s.samples for s in rendered]))
    gain = np.float32(10 ** ((LOUDNESS - loudness) / 20))
    return Book([Sentence(s.text, s.samples * gain, s.onsets, s.reply) for s in rendered])


def _render(flite: Flite, text: str, reply: str) -> Sentence:
    parts = [_SPOKEN.get(word.strip(".,!?"), word).split() for word in text.split()]
    spoken = " ".join(word for part in parts for word in part)
    raw, rate, starts = flite.say(spoken, VOICE, stretch=_STRETCH)
    firsts = [0, *accumulate(map(len, parts))]
    if firsts[-1] != len(starts):
        raise ConfigError(f"the voice reads {len(starts)} words in {spoken!r}")
    samples = to_24k(raw, rate)
    begin, end = speech_bounds(samples)
    onsets = tuple(max(0.0, round(starts[at] - begin / SAMPLE_RATE, 3)) for at in firsts[:-1])
    return Sentence(text, samples[begin:end], onsets, reply)
