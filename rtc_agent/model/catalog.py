"""The models that can be fetched: which files of which repository."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CODEC_FILE = "tokenizer-e351c8d8-checkpoint125.safetensors"
TEXT_FILE = "tokenizer_spm_32k_3.model"
LM_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
VOICES_FILE = "voices.tgz"
VOICES_FOLDER = "voices"

DEMO_LM_FILE = "lm.safetensors"
DEMO_FOLDER = Path(__file__).parents[1] / "demo"
"""The demo agent's model files, as far as this package has them."""


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """One repository on the hub."""

    name: str
    repo: str
    files: tuple[str, ...]
    optional_files: tuple[str, ...] = ()
    """Fetched when the repository has them."""


MODELS: Mapping[str, PublishedModel] = {
    model.name: model
    for model in (
        PublishedModel(
            "personaplex",
            "nvidia/personaplex-7b-v1",
            (CONFIG_FILE, TEXT_FILE, CODEC_FILE, VOICES_FILE, LM_FILE),
        ),
        PublishedModel(
            "moshiko",
            "kyutai/moshiko-pytorch-bf16",
            (TEXT_FILE, CODEC_FILE, LM_FILE),
            (CONFIG_FILE,),
        ),
        PublishedModel(
            "moshika",
            "kyutai/moshika-pytorch-bf16",
            (TEXT_FILE, CODEC_FILE, LM_FILE),
            (CONFIG_FILE,),
        ),
    )
}


def default_folder(model: PublishedModel) -> Path:
    """Where a model's files are kept when no folder is given, after the XDG base directories."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "rtc-agent" / "models" / model.repo.rsplit("/", 1)[-1]
