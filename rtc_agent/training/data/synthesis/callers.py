"""Callers' voices: every free synthesiser, its pitch, tempo and formants drawn apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from rtc_agent.training.data.batch import SAMPLE_RATE, Samples, Utterance
from rtc_agent.training.data.synthesis.espeak import ACCENTS, HELD_OUT, Espeak
from rtc_agent.training.data.synthesis.flite import MEAN_PITCH, Flite
from rtc_agent.training.data.synthesis.shaping import bent, to_24k, to_peak, trim
from rtc_agent.training.data.texts import out_of_domain
from rtc_agent.training.data.texts.intents import demo_domain

ESPEAK_LIBRARY, ESPEAK_DATA, FLITE_FOLDER = "libespeak-ng.so", ".", "."
"""In a folder of carried libraries."""
LEAD_IN = "lead-in"
"""The intent of words that only begin a sentence: the agent must wait for the rest."""

_FLITE_SHARE = 0.5
_VOICES = tuple(MEAN_PITCH)
_CHANCES = np.array([0.24, 0.23, 0.23, 0.2, 0.1])
"""Of Flite's voices in the order of `MEAN_PITCH`."""
_US_SHARE = 0.45
_BENT_SHARE = 0.5
_APART_SHARE, _MOST_APART, _APART_S = 0.08, 6, (0.0, 0.1)
"""Part of the texts of so few words that are spoken word by word, and the seconds between; a pause
that a conversation puts there comes on top."""
_OUT_OF_DOMAIN_SHARE, _LEAD_IN_SHARE = 0.22, 0.04
_LONGEST = 6 * SAMPLE_RATE
_SHORTEST = 1_500
_LEAD_INS = (
    *("um", "uh", "well", "so", "hmm", "let me see", "let me think", "i have a question"),
    *("can you tell me", "could you please", "i would like to know", "i want to know", "okay so"),
    *("one more question", "tell me", "do you know", "what is", "what is the", "how do you"),
    *("and also", "the next thing is", "i was wondering"),
)


class CallerVoices:
    """Speaks callers' utterances, in training voices or in those held out.

    Args:
        folder: of carried libraries, as `prepare` writes it; None: the system's.
        held_out: speak with the eSpeak variants that training never hears.

    Raises:
        ConfigError: a library is missing.
    """

    def __init__(self, folder: Path | None = None, *, held_out: bool = False) -> None:
        self._held_out = held_out
        self._flite = None if held_out else Flite(_VOICES, folder)
        self._espeak = carried_espeak(folder)
        self._variants = tuple(
            name for name in self._espeak.variants if (name in HELD_OUT) == held_out
        )

    def draw(self, rng: np.random.Generator, speaker: str | None = None) -> Utterance:
        """Something that a caller may say, in that voice or in some voice."""
        while True:
            text, intent = draw_text(rng)
            voice = self.draw_speaker(rng) if speaker is None else speaker
            samples = self.say(text, voice, rng)
            if _SHORTEST <= len(samples) <= _LONGEST:
                return Utterance(samples, text, intent, voice)

    def draw_speaker(self, rng: np.random.Generator) -> str:
        """A synthesiser and its voice, e.g. `flite:slt` or `espeak:en-us+f2`."""
        if self._flite is not None and rng.random() < _FLITE_SHARE:
            return f"flite:{_VOICES[int(rng.choice(len(_VOICES), p=_CHANCES))]}"
        us = rng.random() < _US_SHARE
        accent = ACCENTS[0] if us else ACCENTS[int(rng.integers(1, len(ACCENTS)))]
        return f"espeak:{accent}+{self._variants[int(rng.integers(len(self._variants)))]}"

    def say(self, text: str, speaker: str, rng: np.random.Generator) -> Samples:
        """Speak a text at a pitch, tempo and formants that are drawn; empty when nothing came."""
        formants = float(np.exp(rng.normal(0, 0.07)))
        spoken = text + ("?" if rng.random() < 0.4 else "." if rng.random() < 0.5 else "")
        speak = self._drawn(speaker, formants, rng)
        if self._held_out:
            return to_peak(speak(spoken))
        words = text.split()
        if 1 < len(words) <= _MOST_APART and rng.random() < _APART_SHARE:
            samples = _apart([speak(word) for word in words], rng)
        else:
            samples = speak(spoken)
        if len(samples) and rng.random() < _BENT_SHARE:
            samples = bent(samples, rng)
        return to_peak(samples)

    def _drawn(
        self, speaker: str, formants: float, rng: np.random.Generator
    ) -> Callable[[str], Samples]:
        """What speaks as that speaker does today, trimmed and at 24 kHz."""
        synthesiser, voice = speaker.split(":")
        speak: Callable[[str], tuple[Samples, float]]
        if synthesiser == "flite" and self._flite is not None:
            flite = self._flite
            pitch = MEAN_PITCH[voice] * float(np.exp(rng.normal(0, 0.16)))
            stretch = float(np.exp(rng.normal(0, 0.13)))
            lively = float(np.exp(rng.normal(0, 0.4)))

            def speak(text: str) -> tuple[Samples, float]:
                raw, rate, _ = flite.say(
                    text,
                    voice,
                    pitch=pitch / formants,
                    stretch=stretch * formants,
                    lively=lively,
                )
                return raw, rate
        else:
            speed = round(rng.uniform(125, 220) / formants)
            height, spread = int(rng.integers(15, 86)), int(rng.integers(20, 86))

            def speak(text: str) -> tuple[Samples, float]:
                raw = self._espeak.say(
                    text, voice, words_per_minute=speed, pitch=height, spread=spread
                )
                return raw, self._espeak.rate

        def trimmed(text: str) -> Samples:
            raw, rate = speak(text)
            return trim(to_24k(raw, rate, formants)) if len(raw) else raw

        return trimmed


def _apart(words: Sequence[Samples], rng: np.random.Generator) -> Samples:
    """Word by word, as people speak to machines that did not understand them."""
    parts: list[Samples] = []
    for word in words:
        parts += [to_peak(word), np.zeros(int(rng.uniform(*_APART_S) * SAMPLE_RATE), np.float32)]
    return np.concatenate(parts[:-1])


def carried_espeak(folder: Path | None) -> Espeak:
    """eSpeak NG of a folder of carried libraries; None: the system's.

    Raises:
        ConfigError: it is missing.
    """
    if folder is None:
        return Espeak()
    return Espeak(folder / ESPEAK_LIBRARY, folder / ESPEAK_DATA)


def draw_text(rng: np.random.Generator) -> tuple[str, str | None]:
    """A text and its intent; None is out of the domain."""
    kind = rng.random()
    if kind < _OUT_OF_DOMAIN_SHARE:
        return out_of_domain.draw(rng), None
    if kind < _OUT_OF_DOMAIN_SHARE + _LEAD_IN_SHARE:
        return _LEAD_INS[int(rng.integers(len(_LEAD_INS)))], LEAD_IN
    intent, said = demo_domain().draw(rng)
    return said, intent.name
