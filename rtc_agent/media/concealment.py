"""Concealment for codecs whose decoder has none: repeat the last pitch period and fade.

The method is that of ITU-T G.711 Appendix I, at 24 kHz: full level for 10 ms, silent after 60 ms,
and a short cross-fade back into real audio.
"""

from __future__ import annotations

import numpy as np

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm

_MS = SAMPLE_RATE // 1000
_SHORTEST_LAG = 5 * _MS // 2
_LONGEST_LAG = 15 * _MS
_MATCH = 10 * _MS
_HISTORY = _LONGEST_LAG + _MATCH
_HOLD = 10 * _MS
_FADE = 50 * _MS
_CROSSFADE = 5 * _MS


class WaveformConcealer:
    """Follows one decoded stream and stands in where it breaks off."""

    def __init__(self) -> None:
        self._history = np.zeros(_HISTORY, np.float32)
        self._cycle: Pcm | None = None
        self._made = 0

    def received(self, pcm: Pcm) -> Pcm:
        """Real audio, cross-faded if it ends a concealed stretch."""
        if self._cycle is not None:
            n = min(_CROSSFADE, len(pcm))
            ramp = np.linspace(0.0, 1.0, n, endpoint=False, dtype=np.float32)
            pcm = pcm.copy()
            pcm[:n] = pcm[:n] * ramp + self._continue(n) * (1 - ramp)
            self._cycle = None
        self._history = np.concatenate([self._history, pcm])[-_HISTORY:]
        return pcm

    def conceal(self, samples: int) -> Pcm:
        """The next `samples` of a stretch that never arrived."""
        if self._cycle is None:
            self._cycle = self._history[-self._pitch_lag() :]
            self._made = 0
        return self._continue(samples)

    def _continue(self, samples: int) -> Pcm:
        assert self._cycle is not None
        at = self._made + np.arange(samples)
        gain = np.clip(1 - (at - _HOLD) / _FADE, 0.0, 1.0).astype(np.float32)
        self._made += samples
        return np.asarray(self._cycle[at % len(self._cycle)] * gain, np.float32)

    def _pitch_lag(self) -> int:
        """The lag at which the last 10 ms best resemble what came before."""
        recent = self._history[-_MATCH:]
        past = np.lib.stride_tricks.sliding_window_view(self._history, _MATCH)
        # Row r starts _HISTORY − _MATCH − r samples before `recent`.
        rows = past[_HISTORY - _MATCH - _LONGEST_LAG : _HISTORY - _MATCH - _SHORTEST_LAG + 1]
        energy = np.einsum("ij,ij->i", rows, rows)
        score = rows @ recent / np.sqrt(energy + 1e-9)
        return _LONGEST_LAG - int(np.argmax(score))
