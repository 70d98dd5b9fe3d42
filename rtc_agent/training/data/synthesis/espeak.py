"""eSpeak NG through its C library: a formant synthesiser of many voices and accents."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_int, c_short, c_void_p
from pathlib import Path

import numpy as np

from rtc_agent.errors import ConfigError
from rtc_agent.training.data.batch import Samples

ACCENTS = (
    *("en-us", "en", "en-gb-x-rp", "en-gb-scotland", "en-us-nyc", "en-029", "en-gb-x-gbclan"),
    "en-gb-x-gbcwmd",
)
HELD_OUT = frozenset(
    ("Annie", "f4", "m5", "steph3", "Michael", "john", "linda", "paul", "zac", "belinda")
)
"""Variants that are never trained on."""
_NOT_HUMAN = (
    *("UniversalRobot", "whisper", "fast", "grandma", "grandpa", "Storm", "Tweaky", "kaukovalta"),
    *("Demonic", "aunty", "croak", "Mr serious", "robosoft", "UniRobot", "anikaRobot"),
)
"""Beginnings of the names of variants that no one would take for a caller."""

_SYNCHRONOUS = 2
_RATE, _PITCH, _RANGE = 1, 3, 4
_UTF8, _BY_CHARACTER = 1, 1
_IPA, _TIED, _TIE_SHIFT = 0x02, 0x80, 8
"""Of `espeak_TextToPhonemes`: the alphabet, and that a tie stands within a phoneme, and where."""
_SYSTEM = Path("/usr/lib/x86_64-linux-gnu")
_Callback = CFUNCTYPE(c_int, POINTER(c_short), c_int, c_void_p)


class Espeak:
    """One eSpeak NG in this process; not safe for threads.

    Args:
        library: `libespeak-ng.so`; None: the system's.
        data: the folder that holds `espeak-ng-data`.

    Raises:
        ConfigError: it cannot be loaded.
    """

    def __init__(self, library: Path | None = None, data: Path | None = None) -> None:
        data = data or _SYSTEM
        try:
            self._core = ctypes.CDLL(str(library or "libespeak-ng.so.1"))
        except OSError as error:
            raise ConfigError(
                f"eSpeak NG cannot be loaded ({error}); Debian has libespeak-ng1"
            ) from error
        self.rate = int(self._core.espeak_Initialize(_SYNCHRONOUS, 0, str(data).encode(), 0))
        if self.rate <= 0:
            raise ConfigError(f"eSpeak NG finds no espeak-ng-data in {data}")
        self._heard: list[Samples] = []
        self._callback = _Callback(self._collect)
        self.variants = tuple(
            sorted(
                path.name
                for path in (data / "espeak-ng-data" / "voices" / "!v").iterdir()
                if not any(path.name.startswith(odd) for odd in _NOT_HUMAN)
            )
        )

    def say(
        self, text: str, voice: str, *, words_per_minute: int, pitch: int, spread: int
    ) -> Samples:
        """Speak, at `rate` Hz; nothing when there is no such voice.

        Args:
            voice: accent and variant, e.g. `en-us+f2`.
            pitch: 0 … 99, 50 is the voice's own.
            spread: of the pitch, 0 … 99.
        """
        core = self._core
        if core.espeak_SetVoiceByName(voice.encode()) != 0:
            return np.zeros(0, np.float32)
        for parameter, value in ((_RATE, words_per_minute), (_PITCH, pitch), (_RANGE, spread)):
            core.espeak_SetParameter(parameter, value, 0)
        self._heard.clear()
        # The library has one for the whole process: another object's may be set, or be gone.
        core.espeak_SetSynthCallback(self._callback)
        raw = text.encode() + b"\0"
        core.espeak_Synth(raw, len(raw), 0, _BY_CHARACTER, 0, _UTF8, None, None)
        core.espeak_Synchronize()
        return np.concatenate((np.zeros(0, np.float32), *self._heard))

    def phonemes(self, text: str, accent: str, tie: str) -> tuple[str, ...]:
        """What would be said, clause by clause, in the International Phonetic Alphabet.

        Args:
            accent: e.g. `en-us`.
            tie: stands between the characters of one phoneme.

        Raises:
            ConfigError: there is no such accent.
        """
        core = self._core
        if core.espeak_SetVoiceByName(accent.encode()) != 0:
            raise ConfigError(f"eSpeak NG has no voice {accent!r}")
        core.espeak_TextToPhonemes.restype = ctypes.c_char_p
        raw = ctypes.create_string_buffer(text.encode())
        rest, mode = c_void_p(ctypes.addressof(raw)), _IPA | _TIED | ord(tie) << _TIE_SHIFT
        clauses = []
        while rest.value:
            clauses.append(core.espeak_TextToPhonemes(ctypes.byref(rest), _UTF8, mode).decode())
        return tuple(clause.strip() for clause in clauses if clause.strip())

    def _collect(self, samples: ctypes._Pointer[c_short], count: int, _events: int) -> int:
        if count > 0 and samples:
            raw = np.ctypeslib.as_array(samples, (count,))
            self._heard.append(raw.astype(np.float32) / np.float32(32768))
        return 0
