"""Configs of every kind become the sizes that their checkpoints have."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rtc_agent.errors import CheckpointError
from rtc_agent.model.spec import MOSHI, PERSONAPLEX, SILENCE_CODES, ModelSpec

SMALL = {
    "dim": 32, "num_layers": 3, "num_heads": 4, "context": 24, "depformer_dim": 16,
    "depformer_num_layers": 2, "depformer_num_heads": 2, "text_card": 400, "card": 2048,
}  # fmt: skip


def test_the_released_sizes_are_those_of_a_seven_billion_model() -> None:
    spec = ModelSpec.released()
    assert (spec.family, spec.lm.hidden, spec.lm.depformer_hidden) == (PERSONAPLEX, 11264, 2816)
    assert spec.lm.window == 2999
    sizes = [math.prod(shape) for shape in spec.lm.shapes().values()]
    assert 2 * sum(sizes) == pytest.approx(16.74e9, rel=1e-3)
    assert 2 * sum(math.prod(s) for s in spec.lm.shapes(8).values()) < 15.4e9
    assert spec.mimi.frame_samples == 1920
    assert spec.silence_codes == SILENCE_CODES


def test_moshi_keeps_its_whole_window() -> None:
    spec = ModelSpec.released(MOSHI)
    assert (spec.lm.window, spec.mimi.transformer_window) == (3000, 250)
    assert (spec.lm.depformer_checkpoint_steps, spec.lm.depformer_window) == (8, 8)
    assert not spec.family.takes_prompts


def test_moshis_own_config_is_read() -> None:
    config = SMALL | {
        "model_type": "moshi", "dep_q": 8, "n_q": 16, "hidden_scale": 4.125,
        "depformer_dim_feedforward": 66, "depformer_context": 8, "norm": "rms_norm_f32",
        "existing_text_padding_id": 3, "delays": [0, 0, *[1] * 7, 0, *[1] * 7],
    }  # fmt: skip
    spec = ModelSpec.from_config(config)
    assert spec.family is MOSHI
    assert (spec.lm.dim, spec.lm.hidden, spec.lm.depformer_hidden) == (32, 88, 44)
    assert spec.lm.window == 24
    assert spec.mimi == ModelSpec.released(MOSHI).mimi


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({"dep_q": 16}, 15),
        # Run as a model of eight steps, the reference's ring hides the first from the last.
        ({"dep_q": 8}, 7),
        ({"dep_q": 8, "family": "moshi"}, 8),
        ({"dep_q": 8, "depformer_context_trained": "all 8 steps"}, 8),
        # A file of eight steps beside a config without sizes is run as sixteen.
        ({}, 15),
    ],
)
def test_how_far_back_a_depformer_step_sees(config: dict[str, Any], window: int) -> None:
    assert ModelSpec.from_config(SMALL | config).lm.depformer_window == window


def test_sections_and_a_checkpoints_own_codes() -> None:
    config = {
        "lm": SMALL | {"dep_q": 8},
        "codec": {
            "n_filters": 24, "ratios": [8, 6, 5, 4], "dimension": 192,
            "transformer": {"num_heads": 6, "num_layers": 2, "dim_feedforward": 768,
                            "context": 250},
            "quantizer": {"n_q": 8, "bins": 512, "dimension": 96},
        },
        "text": {"pad": 7, "epad": 6},
        "silence_codes": list(range(8)),
    }  # fmt: skip
    spec = ModelSpec.from_config(config)
    assert (spec.mimi.transformer_ffn, spec.mimi.bins, spec.mimi.n_q_total) == (768, 512, 8)
    assert spec.mimi.shapes()["quantizer.rvq_rest.vq.layers.6._codebook.embedding_sum"] == (512, 96)
    assert "quantizer.rvq_rest.vq.layers.7._codebook.embedding_sum" not in spec.mimi.shapes()
    assert spec.silence_codes == tuple(range(8))
    assert spec.lm.unshown_text == (6, 7)


@pytest.mark.parametrize(
    "config",
    [{"family": "other"}, {"dep_q": 12}, {"n_q": 32}, {"delays": [0] * 17}],
)
def test_what_cannot_be_run_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError):
        ModelSpec.from_config(SMALL | config)


@pytest.mark.parametrize("value", ["abc", [1, 2], {}, 0, -1, 2.5, True, 10**9])
@pytest.mark.parametrize(
    "name", ["dim", "num_layers", "num_heads", "context", "depformer_dim", "text_card", "card"]
)
def test_a_size_that_is_none_is_named(name: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=f"config.json gives {name} as "):
        ModelSpec.from_config(SMALL | {name: value})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_heads": 3}, "temporal transformer 3 heads of 32"),
        ({"depformer_num_heads": 16}, "depformer 16 heads of 16"),
        ({"context": 1}, "context as 1"),
        ({"hidden_scale": float("nan")}, "hidden_scale as nan"),
        ({"max_period": "x"}, "max_period as 'x'"),
        ({"delays": 5}, "delays as 5"),
        ({"text_pad": 400}, "text ids beyond its 400"),
        ({"text": []}, r"text as \[\]; expected an object"),
        ({"family": []}, "family"),
        ({"dep_q": None}, "None depformer steps"),
        ({"silence_codes": [1, 2]}, r"silence_codes as \[1, 2\]"),
        ({"sine_codes": [2048] * 8}, "sine_codes as"),
        ({"sine_codes": "abc"}, "sine_codes as 'abc'"),
        ({"n_filters": 8, "ratios": [8, 6, 5]}, "480 samples a frame"),
        ({"n_filters": 8, "n_q_total": 4}, "codec of 4 codebooks"),
        ({"n_filters": 8, "transformer_heads": 7}, "codec's transformer 7 heads"),
        ({"transformer": {"context": 2}}, "codec's context as 2"),
        ({"num_layers": 10**7}, "num_layers as 10000000"),
        ({"n_filters": 8, "n_q_total": 10**7}, "n_q_total as 10000000"),
        ({"lm": [], "mimi": {}}, r"lm as \[\]"),
    ],
)
def test_a_damaged_config_is_refused_in_a_sentence(config: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        ModelSpec.from_config(SMALL | config)
