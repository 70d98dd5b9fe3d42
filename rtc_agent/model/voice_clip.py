"""A recording of a voice, made ready for the codec."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.errors import BadAudioFile
from rtc_agent.model.prompts import VoiceClip
from rtc_agent.wav import read_wav

LOUDNESS_LUFS = -24.0
"""The level PersonaPlex heard its voices at in training."""
MIN_SECONDS = 0.4
"""One gating block of the loudness measure."""
MAX_SECONDS = 60.0
"""A quarter of the model's window of four minutes."""


def normalise_loudness(pcm: Pcm) -> Pcm:
    """Scale a clip to −24 LUFS, integrated loudness after ITU-R BS.1770.

    Args:
        pcm: mono, 24 kHz, without padding, which would count as quiet speech.

    Raises:
        BadAudioFile: too short, too long or too quiet to have a loudness.
    """
    import pyloudnorm

    seconds = len(pcm) / SAMPLE_RATE
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise BadAudioFile(
            f"The voice clip is {seconds:.2f} s long; {MIN_SECONDS:g} to {MAX_SECONDS:g} s are "
            "taken, and about ten are best."
        )
    wide = pcm.astype(np.float64)
    loudness = pyloudnorm.Meter(SAMPLE_RATE).integrated_loudness(wide)
    if not np.isfinite(loudness):
        raise BadAudioFile("The voice clip is silent.")
    scaled: Pcm = (wide * 10 ** ((LOUDNESS_LUFS - loudness) / 20)).astype(np.float32)
    return scaled


def read_recording(path: Path) -> Pcm:
    """A WAV file of a voice: mono, 24 kHz, −24 LUFS.

    Raises:
        BadAudioFile: not a WAV, or nothing in it that a voice could be taken from.
    """
    return normalise_loudness(read_wav(path, MAX_SECONDS))


def read_clip(path: Path) -> VoiceClip:
    """The same as a clip to encode, padded to whole frames."""
    return VoiceClip.from_pcm(torch.from_numpy(read_recording(path)))
