"""The text vocabulary: a small SentencePiece model of what is said in the domain.

Run as a module it trains one, from a JSON object on its standard input, in a process of its own.
"""

from __future__ import annotations

import io
import json
import os
import string
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rtc_agent.errors import MissingDependency, TrainingFailed
from rtc_agent.model.spec import LmSpec

TOKENIZER = "tokenizer.model"
"""The file's name, in a data folder and beside checkpoints."""

_LETTERS = string.ascii_letters + string.digits + ".,?!'<>-:;\"()"
"""Always in the vocabulary, so that any persona can be spelled out."""
_LEAST_PIECES = 100
_SECONDS = 120.0
"""Training takes two or three."""


def train_tokenizer(
    texts: Sequence[str], path: Path, spec: LmSpec, seconds: float = _SECONDS
) -> None:
    """Train a unigram model of the spec's size, with the ids that the model's text row has.

    Id 0 is EPAD to the model and unknown to SentencePiece: neither is ever shown.

    It is done by a fresh interpreter: within a process that had PyTorch and CUDA loaded,
    SentencePiece 0.2.2 was seen to train for ever.

    Args:
        seconds: after which it is given up.

    Raises:
        MissingDependency: sentencepiece is not installed.
        TrainingFailed: it did not come to its end.
    """
    options = {
        "vocab_size": max(spec.text_card, _LEAST_PIECES),
        "unk_id": spec.text_epad,
        "bos_id": spec.text_bos,
        "eos_id": spec.text_eos,
        "pad_id": spec.text_pad,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps({"texts": list(texts), "options": options}).encode(),
            capture_output=True,
            timeout=seconds,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TrainingFailed(
            f"SentencePiece made no tokenizer in {seconds:.0f} s. Make one elsewhere by "
            f"'python -m rtc_agent.training.data prepare' and put it at {path}."
        ) from error
    if done.returncode == _MISSING:
        raise MissingDependency("sentencepiece is missing; pip install 'rtc-agent[model]'.")
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[-1] if said else f"exit status {done.returncode}"
        raise TrainingFailed(f"SentencePiece made no tokenizer: {why}")
    part = path.with_name(path.name + ".part")
    part.write_bytes(done.stdout)
    os.replace(part, path)


_MISSING = 3
"""Exit status that says that SentencePiece is not installed."""


def _train(texts: Sequence[str], options: Mapping[str, Any]) -> bytes:
    try:
        import sentencepiece
    except ImportError:
        sys.exit(_MISSING)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type="unigram",
        character_coverage=1.0,
        required_chars=_LETTERS,
        normalization_rule_name="identity",
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


if __name__ == "__main__":
    sys.stdout.buffer.write(_train(**json.load(sys.stdin)))
