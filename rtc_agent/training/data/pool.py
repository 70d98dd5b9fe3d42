"""Callers: most of them spoken when they are drawn, some recorded beforehand."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import soundfile

from rtc_agent.errors import ConfigError
from rtc_agent.training.data.batch import SAMPLE_RATE, Utterance
from rtc_agent.training.data.synthesis.callers import CallerVoices

_RECORDED_SHARE = 0.06


class Recordings:
    """Utterances in one compressed file, for synthesisers that do not travel."""

    def __init__(self, utterances: Sequence[Utterance] = ()) -> None:
        self.utterances = tuple(utterances)
        self._by_speaker: dict[str, list[Utterance]] = defaultdict(list)
        for utterance in utterances:
            self._by_speaker[utterance.speaker].append(utterance)

    def __len__(self) -> int:
        return len(self.utterances)

    def of(self, speaker: str) -> Sequence[Utterance]:
        """What one speaker says."""
        return self._by_speaker.get(speaker, ())

    def save(self, path: Path) -> None:
        """Write `path`.ogg (Opus) and `path`.json."""
        if not self.utterances:
            raise ValueError("there is nothing to save")
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = np.concatenate([u.samples for u in self.utterances])
        # libsndfile overruns its stack on long writes of Opus; until it does not, in pieces.
        with soundfile.SoundFile(
            path.with_suffix(".ogg"), "w", SAMPLE_RATE, 1, subtype="OPUS", format="OGG"
        ) as out:
            for at in range(0, len(samples), SAMPLE_RATE):
                out.write(samples[at : at + SAMPLE_RATE])
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
    """Callers without end: what is drawn depends on the generator alone, in whatever process.

    Args:
        folder: of carried libraries; None: the system's.
        recorded: what is drawn now and then instead of being spoken.
        held_out: speak with the voices that training never hears.
    """

    def __init__(
        self,
        folder: Path | None = None,
        recorded: Recordings | None = None,
        *,
        held_out: bool = False,
    ) -> None:
        self._folder, self._held_out = folder, held_out
        self._recorded = recorded or Recordings()
        self._voices: CallerVoices | None = None
        self._process = -1

    def draw(self, rng: np.random.Generator) -> Utterance:
        """Any utterance, intents by their weight."""
        known = self._recorded.utterances
        if known and rng.random() < _RECORDED_SHARE:
            return known[int(rng.integers(len(known)))]
        return self._here().draw(rng)

    def draw_alike(self, speaker: str, rng: np.random.Generator) -> Utterance:
        """An utterance of that speaker."""
        alike = self._recorded.of(speaker)
        if alike:
            return alike[int(rng.integers(len(alike)))]
        return self._here().draw(rng, speaker)

    def _here(self) -> CallerVoices:
        """The voices of this process: a synthesiser's state does not outlive a fork."""
        if self._voices is None or self._process != os.getpid():
            self._voices = CallerVoices(self._folder, held_out=self._held_out)
            self._process = os.getpid()
        return self._voices
