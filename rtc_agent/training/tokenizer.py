"""The text vocabulary: a small SentencePiece model of what is said in the domain."""

from __future__ import annotations

import io
import string
from collections.abc import Sequence
from pathlib import Path

from rtc_agent.errors import MissingDependency
from rtc_agent.model.spec import LmSpec

_LETTERS = string.ascii_letters + string.digits + ".,?!'<>-:;\"()"
"""Always in the vocabulary, so that any persona can be spelled out."""
_LEAST_PIECES = 100


def train_tokenizer(texts: Sequence[str], path: Path, spec: LmSpec) -> None:
    """Train a unigram model of the spec's size, with the ids that the model's text row has.

    Id 0 is EPAD to the model and unknown to SentencePiece: neither is ever shown.

    Raises:
        MissingDependency: sentencepiece is not installed.
    """
    try:
        import sentencepiece
    except ImportError as error:
        raise MissingDependency(
            "sentencepiece is missing; pip install 'rtc-agent[model]'."
        ) from error
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=max(spec.text_card, _LEAST_PIECES),
        model_type="unigram",
        unk_id=spec.text_epad,
        bos_id=spec.text_bos,
        eos_id=spec.text_eos,
        pad_id=spec.text_pad,
        character_coverage=1.0,
        required_chars=_LETTERS,
        normalization_rule_name="identity",
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    path.write_bytes(model.getvalue())
