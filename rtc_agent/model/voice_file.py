"""Voice files: the `.pt` that PersonaPlex's reference saves and loads."""

from __future__ import annotations

import contextlib
import io
import pickle
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from torch import Tensor

from rtc_agent.errors import CheckpointError
from rtc_agent.model.prompts import VoiceBundle, VoiceCodes, plan_prompt
from rtc_agent.model.spec import CODEBOOKS, COLUMN_ROWS, ModelSpec

_CACHE_COLUMNS = 4
_NOT_A_VOICE = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    KeyError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What `torch.load` and a look into what it gave may raise on a file of another kind."""

Embed = Callable[[Tensor], Tensor]
"""Token columns [n, 17] to inputs of the temporal transformer [n, dim]."""


def load_voice(content: bytes, label: str, spec: ModelSpec) -> VoiceBundle | VoiceCodes:
    """Read a `.pt`: `embeddings` [N, 1, 1, dim] and `cache` [1, 17, 4]. No code in it is run.

    Files saved here also have `codes` [N + 1, 8], which say the same in any dtype and are taken.

    Args:
        label: what to call it in an error.

    Raises:
        CheckpointError: not such a file, or for a model of other sizes.
    """
    try:
        saved = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        embeddings, cache, codes = saved["embeddings"], saved["cache"], saved.get("codes")
    except _NOT_A_VOICE as error:
        raise CheckpointError(
            f"{label} is not a voice file: a dict of `embeddings` and `cache` is expected."
        ) from error
    if not all(isinstance(part, Tensor) for part in (embeddings, cache)):
        raise CheckpointError(f"{label} is not a voice file: its parts are not tensors.")
    expected = [1, 1, spec.lm.dim], [1, COLUMN_ROWS, _CACHE_COLUMNS]
    if list(embeddings.shape[1:]) != expected[0] or list(cache.shape) != expected[1]:
        raise CheckpointError(
            f"{label} holds embeddings {list(embeddings.shape)} and cache {list(cache.shape)}; "
            f"this model takes [frames, 1, 1, {spec.lm.dim}] and {expected[1]}."
        )
    tokens = cache[0].to(torch.int64)
    limits = torch.tensor((spec.lm.text_card, *(spec.lm.card,) * (COLUMN_ROWS - 1)))
    if not (embeddings.isfinite().all() and ((tokens >= -1) & (tokens <= limits[:, None])).all()):
        raise CheckpointError(f"{label} holds values that this model does not have.")
    if codes is not None:
        return VoiceCodes(_checked_codes(codes, label, len(embeddings) + 1, spec.mimi.bins))
    return VoiceBundle(embeddings[:, 0, 0], tokens)


def _checked_codes(codes: object, label: str, frames: int, bins: int) -> Tensor:
    whole = isinstance(codes, Tensor) and not codes.is_floating_point()
    if not isinstance(codes, Tensor) or not whole or codes.shape != (frames, CODEBOOKS):
        raise CheckpointError(
            f"{label} has other codes than [{frames}, {CODEBOOKS}] whole numbers."
        )
    if codes.min() < 0 or codes.max() >= bins:
        raise CheckpointError(f"{label} holds values that this model does not have.")
    return codes.to(torch.int64)


def bundle_from_codes(spec: ModelSpec, codes: Tensor, embed: Embed) -> VoiceBundle:
    """What the reference saves after prompting with a clip's codes [frames, 8].

    One embedding fewer than the frames: its first call runs no position.
    """
    frames = len(codes)
    columns = plan_prompt(spec, VoiceCodes(codes), ()).columns
    delays = torch.tensor(spec.lm.delays)
    cache = torch.zeros((COLUMN_ROWS, _CACHE_COLUMNS), dtype=torch.int64)
    for position in range(frames + 1):
        # At position `frames` the last frame has only its delayed rows; the ring's others are old.
        written = position - delays < frames
        column = cache[:, position % _CACHE_COLUMNS]
        column.copy_(torch.where(written, columns[position], column))
    return VoiceBundle(embed(columns[: frames - 1]), cache)


def embed_from_checkpoint(lm: Path, columns: Tensor) -> Tensor:
    """`TemporalTransformer.embed` in the file's own dtype, reading one table at a time.

    For adding a voice on a machine that could not hold the model.

    Raises:
        CheckpointError: the file is damaged or has no embeddings.
    """
    tables = [(f"emb.{k}.weight", row) for k, row in enumerate(range(1, COLUMN_ROWS))]
    try:
        with safe_open(lm, framework="pt") as file:
            # In this order, the text last: in bfloat16 the order shows.
            parts = (
                F.embedding(columns[:, row], file.get_tensor(key))
                for key, row in (*tables, ("text_emb.weight", 0))
            )
            total = next(parts)
            for part in parts:
                total = total + part
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{lm} cannot be read: {error}.") from error
    return total


def save_voice(codes: VoiceCodes, bundle: VoiceBundle, path: Path) -> None:
    """Write a voice as the reference does, so that either can load it, and its codes beside.

    Raises:
        CheckpointError: the file cannot be written.
    """
    part = path.with_name(path.name + ".part")
    saved = {
        "embeddings": bundle.embeddings[:, None, None].clone(),
        "cache": bundle.cache[None],
        "codes": codes.codes,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(saved, part)
        part.replace(path)
    except (OSError, RuntimeError) as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise CheckpointError(f"{path} cannot be written: {error}.") from error
