"""A model small enough for one core of a laptop, drawn from a seed: real code, sound without sense.

It needs no file. Its vocabulary is letters, so that a persona can be given and text comes out.
"""

from __future__ import annotations

from rtc_agent.model.spec import LmSpec, MimiSpec, ModelSpec

_FIRST_LETTER = 4
"""Ids below are EPAD, BOS, EOS and PAD."""
_LETTERS = " etaoinshrdlcumwfgypbvkjxqz.,?!'"
_PAUSES = 8
"""Further ids that are shown as nothing, so that the chatter has gaps."""

TINY_SPEC = ModelSpec(
    lm=LmSpec(
        dim=128,
        num_layers=4,
        num_heads=4,
        feedforward=528,
        context=400,
        window=399,
        depformer_dim=64,
        depformer_num_layers=2,
        depformer_num_heads=2,
        depformer_feedforward=264,
        text_card=_FIRST_LETTER + len(_LETTERS) + _PAUSES,
        card=256,
    ),
    mimi=MimiSpec(
        n_filters=12,
        dimension=96,
        transformer_layers=2,
        transformer_heads=3,
        transformer_ffn=384,
        quantizer_dimension=48,
        bins=256,
        n_q_total=8,
    ),
    silence_codes=(17, 203, 88, 141, 5, 230, 66, 119),
    sine_codes=(99, 12, 180, 47, 211, 73, 154, 8),
)


class LetterTokenizer:
    """A vocabulary of letters, with the parts of a SentencePiece model that a stepper needs."""

    def encode(self, text: str, /) -> list[int]:
        """Ids of the letters it knows; others are left out."""
        found = (_LETTERS.find(letter) for letter in text.lower())
        return [_FIRST_LETTER + at for at in found if at >= 0]

    def vocab_size(self) -> int:
        return TINY_SPEC.lm.text_card

    def id_to_piece(self, id: int, /) -> str:
        at = id - _FIRST_LETTER
        return _LETTERS[at] if 0 <= at < len(_LETTERS) else ""

    def is_byte(self, id: int, /) -> bool:
        return False

    def is_control(self, id: int, /) -> bool:
        return id < _FIRST_LETTER

    def is_unknown(self, id: int, /) -> bool:
        return False
