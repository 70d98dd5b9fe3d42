"""A listener's opinion of received speech, by ViSQOL.

ViSQOL (Hines et al., "ViSQOL: an objective speech quality model", 2015) compares received speech
with what was said and predicts the mean opinion score, 1 … 5. In its speech mode it looks at up to
8 kHz. The implementation is the `visqol-python` package.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.errors import MissingDependency
from rtc_agent.media.resampler import Resampler

_VISQOL_RATE = 16_000


def require() -> Any:
    """The ViSQOL package. Raises MissingDependency."""
    try:
        return importlib.import_module("visqol")
    except ImportError:
        raise MissingDependency(
            "The quality score needs ViSQOL: pip install 'rtc-agent[tools]'."
        ) from None


def listening_score(said: Pcm, heard: Pcm) -> float:
    """The opinion score of `heard` as a rendering of `said`, both 24 kHz mono of some seconds.

    `heard` may be late by any constant time: the best alignment counts.

    Raises:
        MissingDependency: the package is not installed.
    """
    visqol = require()
    logging.getLogger("visqol").setLevel(logging.ERROR)
    api = visqol.VisqolApi()
    # The polynomial mapping: the lattice one needs a TensorFlow runtime.
    api.create(mode="speech", use_lattice_model=False)
    delay = best_delay(said, heard)
    aligned = heard[delay : delay + len(said)]
    result = api.measure_from_arrays(_narrow(said[: len(aligned)]), _narrow(aligned), _VISQOL_RATE)
    return float(result.moslqo)


def best_delay(said: Pcm, heard: Pcm) -> int:
    """Samples by which `heard` follows `said`, at the peak of their correlation."""
    size = 1 << int(len(said) + len(heard)).bit_length()
    product = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(said, size)), size)
    return int(np.argmax(product[: len(heard)]))


def _narrow(pcm: Pcm) -> NDArray[np.float64]:
    # The resampler takes whole blocks of 3 samples.
    whole = pcm[: len(pcm) // 3 * 3]
    return Resampler(SAMPLE_RATE, _VISQOL_RATE).process(whole).astype(np.float64)
