"""Writing a model's folder: config, weights of eight bits, tokenizer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from rtc_agent.errors import CheckpointError
from rtc_agent.model.catalog import CONFIG_FILE, DEMO_LM_FILE
from rtc_agent.model.folder import Domain, ModelFolder
from rtc_agent.model.spec import CODEBOOKS, ModelSpec
from rtc_agent.training.eight_bit import save_eight_bit

FILES = {"lm": DEMO_LM_FILE, "codec": "codec.safetensors", "tokenizer": "tokenizer.model"}
SIZE_LIMIT = 20_000_000
"""Bytes of the weights together: what a package may carry."""


@dataclass(frozen=True, slots=True)
class ModelContents:
    """What a folder is written from."""

    spec: ModelSpec
    lm: Mapping[str, Tensor]
    """By the keys of `LmSpec.shapes`."""
    codec: Mapping[str, Tensor]
    """By the keys of `MimiSpec.shapes`."""
    tokenizer: Path
    domain: Domain


def write_model(folder: Path, contents: ModelContents) -> ModelFolder:
    """Write the files and open them as a server would.

    Raises:
        CheckpointError: the weights are larger than may be shipped.
    """
    folder.mkdir(parents=True, exist_ok=True)
    size = save_eight_bit(contents.lm, folder / FILES["lm"])
    size += save_eight_bit(contents.codec, folder / FILES["codec"])
    if size > SIZE_LIMIT:
        raise CheckpointError(f"The weights take {size} bytes; {SIZE_LIMIT} may be shipped.")
    shutil.copyfile(contents.tokenizer, folder / FILES["tokenizer"])
    config = spec_config(contents.spec) | {"files": FILES, "domain": asdict(contents.domain)}
    text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
    opened = ModelFolder.open(folder)
    if opened.spec != contents.spec:
        raise CheckpointError(f"{folder / CONFIG_FILE} does not say what the model is.")
    return opened


def spec_config(spec: ModelSpec) -> dict[str, object]:
    """A `config.json` that `ModelSpec.from_config` reads back as this spec."""
    lm, codec = spec.lm, spec.mimi
    return {
        "family": spec.family.name,
        "lm": {
            "dim": lm.dim,
            "num_layers": lm.num_layers,
            "num_heads": lm.num_heads,
            "hidden_scale": lm.feedforward / lm.dim,
            "context": lm.context,
            "max_period": lm.max_period,
            "n_q": 2 * CODEBOOKS,
            "dep_q": lm.depformer_checkpoint_steps,
            "depformer_dim": lm.depformer_dim,
            "depformer_num_layers": lm.depformer_num_layers,
            "depformer_num_heads": lm.depformer_num_heads,
            "depformer_dim_feedforward": lm.depformer_feedforward,
            "text_card": lm.text_card,
            "card": lm.card,
            "delays": list(lm.delays),
        },
        "codec": {
            "n_filters": codec.n_filters,
            "ratios": list(codec.ratios),
            "kernel_size": codec.kernel_size,
            "residual_kernel_size": codec.residual_kernel_size,
            "last_kernel_size": codec.last_kernel_size,
            "compress": codec.compress,
            "dimension": codec.dimension,
            "transformer": {
                "num_layers": codec.transformer_layers,
                "num_heads": codec.transformer_heads,
                "dim_feedforward": codec.transformer_ffn,
                "context": codec.transformer_context,
                "max_period": codec.max_period,
            },
            "quantizer": {
                "dimension": codec.quantizer_dimension,
                "bins": codec.bins,
                "n_q": codec.n_q_total,
            },
        },
        "text": {
            "epad": lm.text_epad,
            "bos": lm.text_bos,
            "eos": lm.text_eos,
            "pad": lm.text_pad,
        },
        "silence_codes": list(spec.silence_codes),
        "sine_codes": list(spec.sine_codes),
    }
