"""A short listen to a voice: a few seconds of its speech, kept as a WAV beside the voice."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.errors import BadAudioFile
from rtc_agent.wav import WavWriter

SUFFIX = ".sample.wav"
SECONDS = 4.0
_BLOCK = SAMPLE_RATE // 50
_SOUND_RMS = 0.01
"""−40 dBFS: as quiet as speech gets at the level of voices."""
_FADE = SAMPLE_RATE // 20


def cut_sample(pcm: Pcm) -> Pcm:
    """The first `SECONDS` of sound, faded out at the end.

    Args:
        pcm: mono, 24 kHz.

    Raises:
        BadAudioFile: nothing in it can be heard.
    """
    whole = pcm[: len(pcm) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    heard = np.flatnonzero(np.sqrt(np.mean(np.square(whole), axis=1)) > _SOUND_RMS)
    if len(heard) == 0:
        raise BadAudioFile("There is nothing to hear in it.")
    begin = max(0, int(heard[0]) - 2) * _BLOCK
    end = min(begin + round(SECONDS * SAMPLE_RATE), (int(heard[-1]) + 1) * _BLOCK)
    sample = pcm[begin:end].astype(np.float32)
    fade = min(_FADE, len(sample))
    sample[-fade:] *= np.linspace(1, 0, fade, dtype=np.float32)
    return sample


def write_sample(sample: Pcm, path: Path) -> None:
    """Raises BadAudioFile if it cannot be written there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with WavWriter(path) as writer:
        writer.write(sample)
