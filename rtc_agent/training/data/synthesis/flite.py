"""Flite's voices through its C library, with the times of the words."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_char_p, c_float, c_int, c_short, c_void_p
from pathlib import Path

import numpy as np

from rtc_agent.errors import ConfigError
from rtc_agent.training.data.batch import Samples

MEAN_PITCH = {"rms": 100.0, "slt": 170.0, "awb": 120.0, "kal16": 105.0, "kal": 105.0}
"""Every English voice and its usual pitch in Hz."""

_SYSTEM = Path("/usr/lib/x86_64-linux-gnu")
_LIBRARIES = ("libflite.so.1", "libflite_usenglish.so.1", "libflite_cmulex.so.1")
_DEPENDENCY = "libasound.so.2"
_SPREAD = b"int_f0_target_stddev"
_WORD_START = b"R:SylStructure.daughter1.daughter1.R:Segment.p.end"
"""From a word to the end of the segment before its first, which is where it begins."""


class _Wave(Structure):
    _fields_ = (
        ("type", c_char_p),
        ("sample_rate", c_int),
        ("num_samples", c_int),
        ("num_channels", c_int),
        ("samples", POINTER(c_short)),
    )


class _Voice(Structure):
    _fields_ = (("name", c_char_p), ("features", c_void_p))


def library_files(voices: Sequence[str]) -> list[Path]:
    """The files that `Flite` needs of a Debian system (package `libflite1`)."""
    names = (_DEPENDENCY, *_LIBRARIES, *map(_voice_file, voices))
    return [_SYSTEM / name for name in names]


class Flite:
    """One Flite in this process; not safe for threads.

    Args:
        voices: among `MEAN_PITCH`.
        folder: where the libraries are; None: where Debian puts them.

    Raises:
        ConfigError: a library is missing.
    """

    def __init__(self, voices: Sequence[str], folder: Path | None = None) -> None:
        self._folder = folder or _SYSTEM
        self._load(_DEPENDENCY)
        core, *_ = [self._load(name) for name in _LIBRARIES]
        core.flite_init()
        core.flite_synth_text.restype = c_void_p
        core.flite_synth_text.argtypes = [c_char_p, POINTER(_Voice)]
        core.flite_feat_set_float.argtypes = [c_void_p, c_char_p, c_float]
        core.flite_get_param_float.restype = c_float
        core.flite_get_param_float.argtypes = [c_void_p, c_char_p, c_float]
        core.delete_utterance.argtypes = [c_void_p]
        core.utt_wave.restype = POINTER(_Wave)
        core.utt_wave.argtypes = [c_void_p]
        for name in ("utt_relation", "relation_head", "item_next"):
            getattr(core, name).restype = c_void_p
        core.utt_relation.argtypes = [c_void_p, c_char_p]
        core.relation_head.argtypes = core.item_next.argtypes = [c_void_p]
        core.ffeature_float.restype = c_float
        core.ffeature_float.argtypes = [c_void_p, c_char_p]
        self._core = core
        self._voices = {name: self._register(name) for name in voices}
        self._spreads = {
            name: float(core.flite_get_param_float(voice.contents.features, _SPREAD, 0.0))
            for name, voice in self._voices.items()
        }

    def say(
        self,
        text: str,
        voice: str,
        *,
        pitch: float | None = None,
        stretch: float = 1.0,
        lively: float = 1.0,
    ) -> tuple[Samples, int, list[float]]:
        """Speak.

        Args:
            pitch: mean in Hz; None for the voice's own.
            stretch: of the durations; above 1 is slower.
            lively: factor of the pitch's spread; heeded by voices of diphones, whose pitch is by
                rule.

        Returns:
            Samples, their rate in Hz, and the seconds at which each word begins. A word is what
            Flite reads as one: "42" is two, "don't" is one.
        """
        core, speaker = self._core, self._voices[voice]
        features = speaker.contents.features
        core.flite_feat_set_float(features, b"duration_stretch", stretch)
        mean = MEAN_PITCH[voice] if pitch is None else pitch
        core.flite_feat_set_float(features, b"int_f0_target_mean", mean)
        if usual := self._spreads[voice]:
            core.flite_feat_set_float(features, _SPREAD, usual * lively)
        utterance = core.flite_synth_text(text.encode("ascii"), speaker)
        try:
            wave = core.utt_wave(utterance).contents
            raw = np.ctypeslib.as_array(wave.samples, (wave.num_samples,))
            samples = raw.astype(np.float32) / np.float32(32768)
            return samples, int(wave.sample_rate), self._word_starts(utterance)
        finally:
            core.delete_utterance(utterance)

    def _word_starts(self, utterance: int) -> list[float]:
        starts = []
        item = self._core.relation_head(self._core.utt_relation(utterance, b"Word"))
        while item:
            starts.append(float(self._core.ffeature_float(item, _WORD_START)))
            item = self._core.item_next(item)
        return starts

    def _register(self, name: str) -> ctypes._Pointer[_Voice]:
        register = getattr(self._load(_voice_file(name)), f"register_cmu_us_{name}")
        register.restype = POINTER(_Voice)
        register.argtypes = [c_char_p]
        voice: ctypes._Pointer[_Voice] = register(None)
        return voice

    def _load(self, name: str) -> ctypes.CDLL:
        # Global, since each of Flite's libraries takes its symbols from those before.
        try:
            return ctypes.CDLL(str(self._folder / name), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise ConfigError(f"Flite cannot be loaded ({error}); Debian has libflite1") from error


def _voice_file(name: str) -> str:
    return f"libflite_cmu_us_{name}.so.1"
