"""Held-out callers by condition, the same at every measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.signal
import torch

from rtc_agent.model.persona import NAME_PERSONA
from rtc_agent.training.data import human
from rtc_agent.training.data.augment import mu_law
from rtc_agent.training.data.batch import SAMPLE_RATE, EvalCase, EvalSet, Samples, Utterance
from rtc_agent.training.data.pool import Recordings
from rtc_agent.training.data.sounds import KINDS, levelled
from rtc_agent.training.data.synthesis.callers import (
    LEAD_IN,
    CallerVoices,
    carried_espeak,
    draw_text,
)
from rtc_agent.training.data.synthesis.festival import VOICES, speak_festival
from rtc_agent.training.data.synthesis.kokoro import Kokoro, speak_held_out
from rtc_agent.training.data.texts.intent import ASK_NAME
from rtc_agent.training.data.texts.intents import SORRY, demo_domain
from rtc_agent.training.data.texts.names import DEFAULT_NAME, NAMES, answer

IN_DOMAIN, OUT_OF_DOMAIN, SOUND = "in-domain", "out-of-domain", "sound"

_LEVEL = 0.6
"""Of the pool's peak: speech at about −20 dBFS."""
_SEED = 20
_SOUND_LEVEL = 0.3
_SOUNDS_A_KIND = 3
_CONDITIONED = 150
"""Callers that are measured again with noise, by telephone and cutting in."""
_PERSONAS = 8
_NAME_CASES = 4
_FILES = ("festival", "espeak", "human")
_KOKORO, _KOKORO_CASES, _KOKORO_SEED = "kokoro", 150, 23
_KBIT_S = {_KOKORO: 24.0}


def speak_sets(
    folder: Path, count: int, libraries: Path | None, kokoro: Path | None = None
) -> None:
    """Speak and gather the callers of all sets, and keep them; those that are there stay.

    Args:
        count: utterances of each synthesiser.
        libraries: of the synthesisers that travel; None: the system's.
        kokoro: folder that its packages were installed into; None: its set is left out.

    Raises:
        RtcAgentError: Festival is missing.
        ConfigError: eSpeak NG, Kokoro, or a human clip, is missing.
    """
    made: dict[str, Callable[[], Iterator[Utterance]]] = {
        "festival": lambda: _festival(count),
        "espeak": lambda: _espeak(count, libraries),
        "human": _human,
    }
    if kokoro is not None:
        made[_KOKORO] = lambda: _kokoro(kokoro, libraries)
    for name in made:
        if not (folder / f"{name}.json").exists():
            Recordings(list(made[name]())).save(folder / name, kbit_s=_KBIT_S.get(name, 40.0))


def load_sets(folder: Path) -> tuple[EvalSet, ...]:
    """Every set, of what `speak_sets` kept; Kokoro's only where it was spoken.

    Raises:
        ConfigError: it is not there.
    """
    festival, espeak, people = (
        tuple(map(_case, Recordings.load(folder / name).utterances)) for name in _FILES
    )
    neural: tuple[EvalSet, ...] = ()
    if (folder / f"{_KOKORO}.json").exists():
        spoken = Recordings.load(folder / _KOKORO).utterances
        neural = (EvalSet("Kokoro, a held-out voice", tuple(map(_case, spoken))),)
    some = espeak[:_CONDITIONED]
    by_phone = tuple(replace(case, samples=telephone(case.samples)) for case in some)
    return (
        *(_festival_set(voice, festival) for voice in VOICES),
        EvalSet("eSpeak NG, held-out variants", espeak),
        EvalSet("the same, noise at −33 dBFS", some, noise_dbfs=-33.0),
        EvalSet("the same, 8 kHz µ-law", by_phone),
        EvalSet("the same, cutting in on the greeting", some, cut_in=True),
        *neural,
        EvalSet("a human (Asterisk's prompts)", people),
        EvalSet("sounds that are no speech", tuple(_sounds())),
        *_personas(espeak),
    )


def _festival_set(voice: str, cases: Sequence[EvalCase]) -> EvalSet:
    speaker = f"festival:{voice}"
    return EvalSet(f"Festival {voice}", tuple(case for case in cases if case.speaker == speaker))


def expected(intent: str | None, name: str = DEFAULT_NAME) -> frozenset[str]:
    """What may be answered, right after the greeting, by an agent of that name."""
    if intent is None:
        return frozenset((SORRY,))
    if intent == ASK_NAME:
        return frozenset((answer(name),))
    return frozenset(demo_domain().intents[intent].replies)


def telephone(samples: Samples) -> Samples:
    """As 8 kHz µ-law brings it."""
    narrow = scipy.signal.resample_poly(samples, 1, 3)
    coded = mu_law(torch.from_numpy(np.asarray(narrow, np.float32))).numpy()
    return np.asarray(scipy.signal.resample_poly(coded, 3, 1), np.float32)[: len(samples)]


def _case(utterance: Utterance) -> EvalCase:
    return EvalCase(
        utterance.samples * np.float32(_LEVEL),
        utterance.text,
        expected(utterance.intent),
        OUT_OF_DOMAIN if utterance.intent is None else IN_DOMAIN,
        utterance.intent,
        utterance.speaker,
    )


def _festival(count: int) -> Iterator[Utterance]:
    rng = np.random.default_rng(_SEED + 1)
    voices = list(VOICES)
    for i in range(count):
        intent: str | None = LEAD_IN
        while intent == LEAD_IN:
            text, intent = draw_text(rng)
        voice = voices[i % len(voices)]
        yield Utterance(speak_festival(text, voice), text, intent, f"festival:{voice}")


def _espeak(count: int, libraries: Path | None) -> Iterator[Utterance]:
    voices = CallerVoices(libraries, held_out=True)
    rng = np.random.default_rng(_SEED)
    while count:
        utterance = voices.draw(rng)
        if utterance.intent != LEAD_IN:
            count -= 1
            yield utterance


def _kokoro(package: Path, libraries: Path | None) -> Iterator[Utterance]:
    voices, espeak = Kokoro.open(package), carried_espeak(libraries)
    return speak_held_out(voices, espeak, _KOKORO_CASES, _KOKORO_SEED)


def _human() -> Iterator[Utterance]:
    for samples, said, intent in human.known_clips():
        yield Utterance(samples, said, intent, "human")
    for samples, said in human.unknown_clips():
        yield Utterance(samples, said, None, "human")


def _sounds() -> Iterator[EvalCase]:
    rng = np.random.default_rng(_SEED + 2)
    for kind, make in KINDS.items():
        for _ in range(_SOUNDS_A_KIND):
            samples = levelled(make(rng)) * np.float32(_SOUND_LEVEL)
            yield EvalCase(samples[: 4 * SAMPLE_RATE], kind, frozenset(), SOUND)


def _personas(callers: Sequence[EvalCase]) -> Iterator[EvalSet]:
    """Who is asked for its name must say the persona's, and answer other things as ever."""
    asking = [c for c in callers if c.intent == ASK_NAME][:_NAME_CASES]
    other = [c for c in callers if c.intent != ASK_NAME][:_NAME_CASES]
    for name in NAMES[1 : 1 + _PERSONAS]:
        cases = [replace(c, expected=expected(c.intent, name)) for c in asking]
        yield EvalSet(f"persona {name}", (*cases, *other), persona=NAME_PERSONA.format(name=name))
