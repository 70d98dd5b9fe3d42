"""The streaming codec against an implementation that shares no code with it.

`transformers.MimiModel` works on whole clips. Within its attention window that is the same
function; past it, it departs from the reference, so the clips here are shorter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor

from rtc_agent.model.mimi import MimiDecoder, MimiEncoder
from rtc_agent.model.mimi_weights import MimiWeights, assemble_mimi
from rtc_agent.model.spec import CODEBOOKS, MimiSpec

transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)

SPEC = MimiSpec(
    n_filters=4,
    dimension=64,
    transformer_layers=2,
    transformer_heads=4,
    transformer_ffn=96,
    quantizer_dimension=16,
    bins=64,
    n_q_total=10,
)
FRAMES = 20
_RENAMED = {
    "encoder.model.": "encoder.layers.",
    "decoder.model.": "decoder.layers.",
    "downsample.conv.conv.conv.": "downsample.conv.",
    "upsample.convtr.convtr.convtr.": "upsample.conv.",
    ".convtr.convtr.": ".conv.",
    ".conv.conv.": ".conv.",
    "quantizer.rvq_first.": "quantizer.semantic_residual_vector_quantizer.",
    "quantizer.rvq_rest.": "quantizer.acoustic_residual_vector_quantizer.",
    ".vq.layers.": ".layers.",
    "._codebook._initialized": ".codebook.initialized",
    "._codebook.cluster_usage": ".codebook.cluster_usage",
    "._codebook.embedding_sum": ".codebook.embed_sum",
    "_transformer.transformer.layers.": "_transformer.layers.",
    "self_attn.out_proj.": "self_attn.o_proj.",
    "linear1.": "mlp.fc1.",
    "linear2.": "mlp.fc2.",
    "norm1.": "input_layernorm.",
    "norm2.": "post_attention_layernorm.",
    "layer_scale_1.": "self_attn_layer_scale.",
    "layer_scale_2.": "mlp_layer_scale.",
}
"""A released key's parts to those of `MimiModel`, in this order."""
_NESTED = re.compile(
    r"^(?:encoder|decoder)\.(?=(?:encoder|decoder)_transformer|downsample|upsample)|"
    r"(?<=coder\.)(?:encoder|decoder)_seanet\."
)
"""What releases from 5.24 on put in front of, or into, these keys."""


@pytest.fixture(scope="module")
def checkpoint() -> dict[str, Tensor]:
    """Small weights of a fixed seed under the released keys."""
    generator = torch.Generator().manual_seed(5)

    def draw(key: str, shape: tuple[int, ...]) -> Tensor:
        values = torch.randn(shape, generator=generator)
        if key.endswith(("cluster_usage", "_initialized")):
            return values.abs() + 0.5 if key.endswith("usage") else torch.ones(shape)
        if key.endswith("scale"):
            return 0.3 + 0.1 * values
        if key.endswith(("norm1.weight", "norm2.weight")):
            return 1 + 0.1 * values
        if key.endswith("embedding_sum"):
            return 0.2 * values
        if key.endswith("bias"):
            return 0.02 * values
        return 1.5 * values / math.sqrt(math.prod(shape[1:]))

    return {key: draw(key, shape) for key, shape in SPEC.shapes().items()}


@pytest.fixture(scope="module")
def ours(checkpoint: Mapping[str, Tensor]) -> MimiWeights:
    return assemble_mimi(SPEC, lambda key, rows: checkpoint[key].clone())


@pytest.fixture(scope="module")
def theirs(checkpoint: Mapping[str, Tensor]) -> Iterator[torch.nn.Module]:
    config = transformers.MimiConfig(
        num_filters=SPEC.n_filters,
        upsampling_ratios=list(SPEC.ratios),
        hidden_size=SPEC.dimension,
        num_hidden_layers=SPEC.transformer_layers,
        num_attention_heads=SPEC.transformer_heads,
        num_key_value_heads=SPEC.transformer_heads,
        head_dim=SPEC.head_dim,
        intermediate_size=SPEC.transformer_ffn,
        codebook_dim=SPEC.quantizer_dimension,
        vector_quantization_hidden_dimension=SPEC.quantizer_dimension,
        codebook_size=SPEC.bins,
        num_quantizers=SPEC.n_q_total,
        upsample_groups=SPEC.dimension,
        sliding_window=SPEC.transformer_context,
    )
    model = transformers.MimiModel(config).eval()
    renamed = dict(_theirs(checkpoint))
    model.load_state_dict({key: renamed.pop(_NESTED.sub("", key)) for key in model.state_dict()})
    assert not renamed
    yield model


def _theirs(checkpoint: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for key, value in checkpoint.items():
        name = key
        for part, other in _RENAMED.items():
            name = name.replace(part, other)
        if not name.endswith("in_proj_weight"):
            yield name, value
            continue
        for letter, weight in zip("qkv", value.chunk(3), strict=True):
            wanted = weight if letter == "v" else _halves(weight)
            yield name.replace("in_proj_weight", f"{letter}_proj.weight"), wanted


def _halves(weight: Tensor) -> Tensor:
    """Rotary pairs side by side to pairs half a head apart, as `MimiModel` turns them."""
    heads = weight.view(SPEC.transformer_heads, SPEC.head_dim // 2, 2, -1)
    return heads.transpose(1, 2).reshape(weight.shape)


@pytest.fixture(scope="module")
def pcm() -> Tensor:
    """[2, samples]: a loud and a quiet voice's worth of noise that changes as it goes."""
    generator = torch.Generator().manual_seed(6)
    noise = torch.randn((2, FRAMES * SPEC.frame_samples), generator=generator)
    swell = torch.linspace(0, 40, noise.shape[1]).sin()
    return noise * swell * torch.tensor([[0.5], [0.02]])


def test_codes_are_those_of_the_whole_clip(
    ours: MimiWeights, theirs: torch.nn.Module, pcm: Tensor
) -> None:
    encoder = MimiEncoder(SPEC, ours, 2)
    live = torch.ones(2, dtype=torch.bool)
    with torch.inference_mode():
        whole = theirs.encode(pcm[:, None], num_quantizers=CODEBOOKS).audio_codes
        frames = [encoder.encode(f, live)[0] for f in pcm.split(SPEC.frame_samples, dim=1)]
    assert torch.equal(torch.stack(frames, dim=2), whole)
    # Weights that quantise everything alike would agree with anything.
    assert all(len(book.unique()) > 5 for book in whole.transpose(0, 1).flatten(1))


def test_sound_is_that_of_the_whole_clip(ours: MimiWeights, theirs: torch.nn.Module) -> None:
    generator = torch.Generator().manual_seed(7)
    codes = torch.randint(SPEC.bins, (2, CODEBOOKS, FRAMES), generator=generator)
    decoder = MimiDecoder(SPEC, ours, 2)
    live = torch.ones(2, dtype=torch.bool)
    with torch.inference_mode():
        whole = theirs.decode(codes).audio_values[:, 0]
        sound = torch.cat([decoder.decode(frame, live) for frame in codes.unbind(2)], dim=1)
    assert whole.square().mean().sqrt() > 0.01
    torch.testing.assert_close(sound, whole, atol=1e-4, rtol=0)
