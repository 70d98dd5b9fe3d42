"""Making a stretch of audio shorter or longer where it is silent."""

from __future__ import annotations

import numpy as np

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm

QUIET_DBFS = -48.0
_BLOCK = SAMPLE_RATE // 200
"""5 ms: the grain in which silence is looked for, and the length of a cross-fade."""


def silent_run(pcm: Pcm) -> tuple[int, int]:
    """The longest silent run: its first sample and its length (0 if there is none)."""
    blocks = len(pcm) // _BLOCK
    power = np.square(pcm[: blocks * _BLOCK].reshape(blocks, _BLOCK)).mean(axis=1)
    quiet = power < 10 ** (QUIET_DBFS / 10)
    best_start = best = start = 0
    for i in range(blocks + 1):
        if i < blocks and quiet[i]:
            continue
        if i - start > best:
            best_start, best = start, i - start
        start = i + 1
    return best_start * _BLOCK, best * _BLOCK


def shorten(pcm: Pcm, most: int) -> Pcm:
    """Without up to `most` samples of its silence, the seam cross-faded."""
    at, length = silent_run(pcm)
    cut = min(most, length - _BLOCK)
    if cut <= 0:
        return pcm
    ramp = np.linspace(0, 1, _BLOCK, dtype=np.float32)
    seam = pcm[at : at + _BLOCK] * (1 - ramp) + pcm[at + cut : at + cut + _BLOCK] * ramp
    return np.concatenate([pcm[:at], seam, pcm[at + cut + _BLOCK :]])


def lengthen(pcm: Pcm, most: int) -> Pcm:
    """With up to `most` samples of its silence said twice, the seam cross-faded."""
    at, length = silent_run(pcm)
    extra = min(most, length - _BLOCK)
    if extra <= 0:
        return pcm
    ramp = np.linspace(0, 1, _BLOCK, dtype=np.float32)
    end = at + extra
    seam = pcm[end : end + _BLOCK] * (1 - ramp) + pcm[at : at + _BLOCK] * ramp
    return np.concatenate([pcm[:end], seam, pcm[at + _BLOCK :]])
