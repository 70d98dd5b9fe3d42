"""What a session opens with, as one plan for the temporal transformer.

Voice, six frames of silence, persona at one text token a frame, six frames of silence. Everything
is forced, so the whole of it can be run in parallel, and depends on (voice, persona) alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.errors import ConfigError
from rtc_agent.model.spec import (
    CODEBOOKS,
    COLUMN_ROWS,
    ModelSpec,
)

SILENCE_FRAMES = 6
"""Half a second at 12.5 frames a second, rounded down."""
_CACHE_COLUMNS = 4


@dataclass(frozen=True, slots=True)
class VoiceCodes:
    """A voice as codec codes of a clip of it."""

    codes: Tensor
    """[frames, 8] int64"""


@dataclass(frozen=True, slots=True)
class VoiceBundle:
    """A voice as PersonaPlex saves it: what the temporal transformer was fed, and what was pending.

    After its N inputs positions 0 … N − 1 have been run.
    """

    embeddings: Tensor
    """[N, dim] inputs of the temporal transformer."""
    cache: Tensor
    """[17, 4] int64: the column of position p is at p mod 4, delays applied."""

    @classmethod
    def from_saved(cls, embeddings: Tensor, cache: Tensor) -> VoiceBundle:
        """From the tensors of a voice's `.pt` file: [N, 1, 1, dim] and [1, 17, 4].

        Raises:
            ConfigError: they have other shapes.
        """
        shapes = tuple(embeddings.shape), tuple(cache.shape)
        if len(shapes[0]) != 4 or shapes[0][1:3] != (1, 1) or shapes[1] != (1, COLUMN_ROWS, 4):
            raise ConfigError(
                f"the voice holds embeddings {list(shapes[0])} and cache {list(shapes[1])}; "
                f"expected [frames, 1, 1, dim] and [1, {COLUMN_ROWS}, 4]"
            )
        return cls(embeddings[:, 0, 0], cache[0].long())


@dataclass(frozen=True, slots=True)
class VoiceClip:
    """A voice as a clip of it, still to be encoded."""

    frames: Tensor
    """[frames, 1920] float32 at 24 kHz, −24 LUFS, the last frame padded with zeros."""

    @classmethod
    def from_pcm(cls, pcm: Tensor) -> VoiceClip:
        """Cut mono samples at 24 kHz, already normalised, into frames."""
        spare = -len(pcm) % FRAME_SAMPLES
        return cls(F.pad(pcm, (0, spare)).view(-1, FRAME_SAMPLES))


EncodedVoice = VoiceCodes | VoiceBundle
Voice = EncodedVoice | VoiceClip


@dataclass(frozen=True, slots=True)
class PrefillPlan:
    """Inputs of positions 0 … length − 1, and the column that stands at the first live one."""

    embeddings: Tensor | None
    """[n, dim] inputs of the first n positions, where they are given directly."""
    columns: Tensor
    """[length − n, 17] int64 token columns of the rest."""
    pending: Tensor
    """[17] int64; text and both codebooks 0 are still to come."""

    @property
    def length(self) -> int:
        return len(self.columns) + (0 if self.embeddings is None else len(self.embeddings))


def plan_prompt(spec: ModelSpec, voice: EncodedVoice | None, persona: Sequence[int]) -> PrefillPlan:
    """Lay a voice and a persona out as columns.

    Args:
        persona: text ids, already wrapped; empty for none.

    Raises:
        ConfigError: the voice does not fit the model.
    """
    _check_voice(spec, voice)
    lm = spec.lm
    silence = [(lm.text_pad, spec.silence_codes)] * SILENCE_FRAMES
    spoken = [(token, spec.silence_codes) for token in persona]
    frames = torch.tensor([(text, *codes) for text, codes in (*silence, *spoken, *silence)])
    if isinstance(voice, VoiceCodes):
        codes = voice.codes.cpu().long()
        heard = torch.cat((torch.full((len(codes), 1), lm.text_pad), codes), dim=1)
        frames = torch.cat((heard, frames))
    sine = torch.tensor(spec.sine_codes).expand(len(frames), -1)
    frames = torch.cat((frames, sine), dim=1)
    # A bundle of N inputs has frame N written already, so the next frame is number N + 1.
    first = len(voice.embeddings) + 1 if isinstance(voice, VoiceBundle) else 0
    length = first + len(frames)
    columns = torch.tensor(lm.sos_column).repeat(length + 1, 1)
    if isinstance(voice, VoiceBundle):
        for position in range(max(0, first + 1 - _CACHE_COLUMNS), first + 1):
            columns[position] = voice.cache[:, position % _CACHE_COLUMNS]
    for row, delay in enumerate(lm.delays):
        # The last frame's delayed rows are in the column that is still pending.
        columns[first + delay : length + delay, row] = frames[:, row]
    sos = torch.tensor(lm.sos_column)
    columns[0] = sos
    if length >= 1:
        delayed = torch.tensor(lm.delays) > 0
        columns[1] = torch.where(delayed, sos, columns[1])
    given = len(voice.embeddings) if isinstance(voice, VoiceBundle) else 0
    return PrefillPlan(
        embeddings=voice.embeddings if isinstance(voice, VoiceBundle) else None,
        columns=columns[given:length],
        pending=columns[length],
    )


def _check_voice(spec: ModelSpec, voice: EncodedVoice | None) -> None:
    if isinstance(voice, VoiceCodes):
        codes = voice.codes
        fits = codes.ndim == 2 and codes.shape[1] == CODEBOOKS and len(codes) > 0
        if not fits or codes.min() < 0 or codes.max() >= spec.mimi.bins:
            raise ConfigError(
                f"the voice's codes are {list(codes.shape)}; expected [frames, {CODEBOOKS}] "
                f"with values below {spec.mimi.bins}"
            )
    elif isinstance(voice, VoiceBundle):
        embeddings, cache = list(voice.embeddings.shape), list(voice.cache.shape)
        if embeddings[1:] != [spec.lm.dim] or cache != [COLUMN_ROWS, _CACHE_COLUMNS]:
            raise ConfigError(
                f"the voice holds embeddings {embeddings} and cache {cache}; this model takes "
                f"[frames, {spec.lm.dim}] and [{COLUMN_ROWS}, {_CACHE_COLUMNS}]"
            )
