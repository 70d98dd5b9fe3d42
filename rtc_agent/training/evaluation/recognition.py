"""Whether a recogniser that took no part understands the agent: choice among its sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rtc_agent.engine.stepper import SAMPLE_RATE
from rtc_agent.errors import MissingDependency
from rtc_agent.training.data.batch import Samples

_RATE = 16_000
_PEAK = 0.7
_EDGE_S = 0.2
"""Of silence put around what is recognised."""


def plain_words(text: str) -> str:
    """Lower-case words without punctuation, as recognisers know them."""
    return " ".join(re.findall(r"[a-z']+", text.lower()))


class SentenceChooser:
    """PocketSphinx with a grammar of whole sentences.

    Args:
        sentences: what there is to choose from; those with words it has no sound for are left out.

    Raises:
        MissingDependency: pocketsphinx or scipy is not installed.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        try:
            import pocketsphinx
            from scipy.signal import resample_poly
        except ImportError as error:
            raise MissingDependency(
                f"{error.name} is missing; pip install pocketsphinx scipy."
            ) from error
        self._resample = resample_poly
        self._decoder: Any = pocketsphinx.Decoder(
            samprate=_RATE, lm=None, loglevel="FATAL", bestpath=False
        )
        self.known = sorted({plain_words(s) for s in sentences if self._pronounceable(s)})
        grammar = " | ".join(self.known)
        self._decoder.add_jsgf_string(
            "sentences", f"#JSGF V1.0; grammar sentences; public <one> = {grammar};"
        )
        self._decoder.activate_search("sentences")

    def choose(self, pcm: Samples) -> str:
        """The likeliest sentence, in plain words; empty if none fits."""
        narrow = self._resample(pcm.astype(np.float64), _RATE, SAMPLE_RATE)
        narrow *= _PEAK / max(float(np.abs(narrow).max()), 1e-6)
        edge = np.zeros(int(_EDGE_S * _RATE))
        whole = np.concatenate((edge, narrow, edge))
        self._decoder.start_utt()
        self._decoder.process_raw((whole * 32767).astype("<i2").tobytes(), full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return found.hypstr if found is not None else ""

    def _pronounceable(self, sentence: str) -> bool:
        words = plain_words(sentence).split()
        return bool(words) and all(self._decoder.lookup_word(word) for word in words)
