"""Callers: most of them spoken when they are drawn, some recorded beforehand."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import numpy as np
import soundfile

from rtc_agent.errors import ConfigError
from rtc_agent.training.data.batch import SAMPLE_RATE, Utterance
from rtc_agent.training.data.synthesis.callers import CallerVoices, carried_espeak
from rtc_agent.training.data.synthesis.kokoro import Kokoro, speak_kokoro
from rtc_agent.training.data.synthesis.shaping import bent

_BENT_SHARE = 0.5
"""Of recorded callers drawn: each is drawn many times."""
_LOWEST_RATE, _HIGHEST_RATE = 6.0, 256.0
"""kbit/s of a channel, between which libsndfile's compression level of Opus goes from 1 to 0."""
_CHUNK = 64
"""Utterances that a process speaks at once."""
_NEURAL_CHUNK = 150

_Task = TypeVar("_Task")


class Recordings:
    """Utterances that are there already."""

    def __init__(self, utterances: Sequence[Utterance] = ()) -> None:
        self.utterances = tuple(utterances)
        self._by_speaker: dict[str, list[int]] = defaultdict(list)
        for i, utterance in enumerate(utterances):
            self._by_speaker[utterance.speaker].append(i)

    def __len__(self) -> int:
        return len(self.utterances)

    @property
    def speakers(self) -> Collection[str]:
        """Who speaks in them."""
        return self._by_speaker.keys()

    def draw(self, rng: np.random.Generator, speaker: str | None = None) -> Utterance:
        """Any of them, or any of one speaker's."""
        among = range(len(self)) if speaker is None else self._by_speaker[speaker]
        return self.utterances[among[int(rng.integers(len(among)))]]

    def save(self, path: Path, kbit_s: float = 40.0) -> None:
        """Write `path`.ogg (Opus, about so many kbit/s) and `path`.json."""
        if not self.utterances:
            raise ValueError("there is nothing to save")
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = np.concatenate([u.samples for u in self.utterances])
        with soundfile.SoundFile(
            path.with_suffix(".ogg"),
            "w",
            SAMPLE_RATE,
            1,
            subtype="OPUS",
            format="OGG",
            compression_level=(_HIGHEST_RATE - kbit_s) / (_HIGHEST_RATE - _LOWEST_RATE),
        ) as out:
            out.write(samples)
        entries = [[len(u.samples), u.text, u.intent, u.speaker] for u in self.utterances]
        path.with_suffix(".json").write_text(json.dumps(entries))

    @classmethod
    def load(cls, path: Path) -> Recordings:
        """Read what `save` wrote.

        Raises:
            ConfigError: it is not there, or its two files differ in length.
        """
        try:
            entries = json.loads(path.with_suffix(".json").read_text())
            samples, _ = soundfile.read(path.with_suffix(".ogg"), dtype="float32")
        except (OSError, soundfile.LibsndfileError) as error:
            raise ConfigError(f"the recorded callers cannot be read: {error}") from error
        ends = list(accumulate(entry[0] for entry in entries))
        if ends[-1] > len(samples):
            raise ConfigError(f"{path}.ogg is shorter than {path}.json says")
        return cls(
            [
                Utterance(samples[end - length : end], text, intent, speaker)
                for (length, text, intent, speaker), end in zip(entries, ends, strict=True)
            ]
        )


class Callers:
    """Callers without end.

    What is drawn depends on the generator and on what was put in here alone, in whatever process,
    but for the noise within a synthesiser's sounds.

    Args:
        folder: of carried libraries; None: the system's.
        recorded: each with its share of what is drawn.
        stock: drawn otherwise, at no cost; without any, utterances are spoken when drawn. Those
            of a given speaker always are.
    """

    def __init__(
        self,
        folder: Path | None = None,
        recorded: Sequence[tuple[Recordings, float]] = (),
        stock: Recordings | None = None,
    ) -> None:
        self._folder = folder
        self._recorded = tuple(recorded)
        self._stock = stock or Recordings()
        self._voices: CallerVoices | None = None
        self._process = -1

    def __len__(self) -> int:
        """Utterances at hand."""
        return sum(len(recorded) for recorded, _ in self._recorded) + len(self._stock)

    def draw(self, rng: np.random.Generator) -> Utterance:
        """Any utterance, intents by their weight."""
        chance = rng.random()
        for recorded, share in self._recorded:
            if chance < share:
                return _varied(recorded.draw(rng), rng)
            chance -= share
        return self._stock.draw(rng) if len(self._stock) else self._here().draw(rng)

    def draw_alike(self, speaker: str, rng: np.random.Generator) -> Utterance:
        """An utterance of that speaker."""
        for recorded, _ in self._recorded:
            if speaker in recorded.speakers:
                return _varied(recorded.draw(rng, speaker), rng)
        return self._here().draw(rng, speaker)

    def _here(self) -> CallerVoices:
        """The voices of this process: a synthesiser's state does not outlive a fork."""
        if self._voices is None or self._process != os.getpid():
            self._voices = CallerVoices(self._folder)
            self._process = os.getpid()
        return self._voices


def _varied(utterance: Utterance, rng: np.random.Generator) -> Utterance:
    if rng.random() >= _BENT_SHARE:
        return utterance
    return replace(utterance, samples=bent(utterance.samples, rng))


def speak_stock(folder: Path | None, count: int, seed: int, workers: int) -> Recordings:
    """Utterances spoken beforehand by several processes; the same for a count and a seed.

    Args:
        folder: of carried libraries; None: the system's.
    """
    sizes = [min(_CHUNK, count - at) for at in range(0, count, _CHUNK)]
    return _gather(_speak, [(folder, size, (seed, i)) for i, size in enumerate(sizes)], workers)


def speak_neural(
    kokoro: Path, folder: Path | None, count: int, seed: int, workers: int
) -> Recordings:
    """As `speak_stock`, by Kokoro, which takes a core 1.3 s for each.

    Args:
        kokoro: folder that its packages were installed into.

    Raises:
        ConfigError: it is not there.
    """
    parts = max(1, count // _NEURAL_CHUNK)
    tasks = [(kokoro, folder, count, seed, part, parts) for part in range(parts)]
    return _gather(_speak_neural, tasks, workers)


def _gather(
    speak: Callable[[_Task], list[Utterance]], tasks: Sequence[_Task], workers: int
) -> Recordings:
    # A fresh interpreter each: a process that has used CUDA must not be forked.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(tasks)), context) as processes:
        return Recordings([u for spoken in processes.map(speak, tasks) for u in spoken])


def _speak_neural(task: tuple[Path, Path | None, int, int, int, int]) -> list[Utterance]:
    kokoro, folder, count, seed, part, parts = task
    voices = _kokoro_of(kokoro)
    return list(speak_kokoro(voices, carried_espeak(folder), count, seed, part, parts))


@cache
def _kokoro_of(folder: Path) -> Kokoro:
    return Kokoro.open(folder)


def _speak(task: tuple[Path | None, int, tuple[int, int]]) -> list[Utterance]:
    folder, size, seed = task
    voices = _voices_of(folder)
    rng = np.random.default_rng(seed)
    return [voices.draw(rng) for _ in range(size)]


@cache
def _voices_of(folder: Path | None) -> CallerVoices:
    return CallerVoices(folder)
