"""Recorded runs of the reference, unpacked from `tests/data/golden`."""

from __future__ import annotations

import json
import lzma
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from safetensors.torch import load_file
from torch import Tensor

from rtc_agent.model.checkpoint import load_lm, load_mimi
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.weights import LmWeights

PACKED = Path(__file__).parent / "data" / "golden"
NAMES = ("lm_a", "moshi_a", "mimi_a", "e2e_a")


def unpack(name: str, into: Path) -> Path:
    """A folder as `rtc-agent verify` takes it, made below `into`."""
    folder = into / name
    folder.mkdir()
    shutil.copy(PACKED / name / "config.json", folder)
    for packed in (PACKED / name).glob("*.xz"):
        (folder / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    return folder


@cache
def golden(name: str) -> Path:
    """An unpacked folder that tests share and must not change."""
    return unpack(name, Path(mkdtemp(prefix="golden-")))


@cache
def golden_spec(name: str) -> ModelSpec:
    return ModelSpec.from_config(json.loads((golden(name) / "config.json").read_text()))


@cache
def golden_lm(name: str = "lm_a") -> LmWeights:
    return load_lm(golden(name) / "model.safetensors", golden_spec(name).lm)


@cache
def golden_mimi(name: str = "mimi_a") -> MimiWeights:
    return load_mimi(golden(name) / "mimi.safetensors", golden_spec(name).mimi)


@cache
def replay(name: str) -> dict[str, Tensor]:
    folder = golden(name)
    file = folder / "replay.safetensors"
    return load_file(file if file.exists() else folder / "replays.safetensors")
