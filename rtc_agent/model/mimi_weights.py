"""The codec's tensors, grouped as the streaming modules use them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rtc_agent.model.spec import CODEBOOKS, MimiSpec
from rtc_agent.model.weights import Fetch


@dataclass(frozen=True, slots=True)
class ConvWeights:
    """A convolution, [out, in, kernel], or a transposed one, [in, out, kernel]."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, slots=True)
class ResidualWeights:
    conv: ConvWeights
    """Kernel 3, channels → channels / compress."""
    pointwise: ConvWeights
    """Kernel 1, back to channels."""


@dataclass(frozen=True, slots=True)
class MimiLayer:
    """One layer of either of the codec's transformers; d is `MimiSpec.dimension`."""

    norm1: ConvWeights
    """LayerNorm, [d] each."""
    in_proj: Tensor
    """[3 · d, d]"""
    out_proj: Tensor
    """[d, d], the layer scale folded in."""
    norm2: ConvWeights
    linear1: Tensor
    """[ffn, d]"""
    linear2: Tensor
    """[d, ffn], the layer scale folded in."""


@dataclass(frozen=True, slots=True)
class QuantizerWeights:
    """One half of the split residual quantiser."""

    input_proj: Tensor
    """[quantizer_dimension, d]"""
    output_proj: Tensor
    """[d, quantizer_dimension]"""
    codebooks: Tensor
    """[layers, bins, quantizer_dimension]"""


@dataclass(frozen=True, slots=True)
class MimiWeights:
    encoder_first: ConvWeights
    encoder_blocks: tuple[tuple[ResidualWeights, ConvWeights], ...]
    """(residual, strided convolution) from the waveform down."""
    encoder_last: ConvWeights
    encoder_layers: tuple[MimiLayer, ...]
    downsample: Tensor
    """[d, d, 4]"""
    semantic: QuantizerWeights
    acoustic: QuantizerWeights
    upsample: Tensor
    """[d, 4], depthwise."""
    decoder_layers: tuple[MimiLayer, ...]
    decoder_first: ConvWeights
    decoder_blocks: tuple[tuple[ConvWeights, ResidualWeights], ...]
    """(transposed convolution, residual) up to the waveform."""
    decoder_last: ConvWeights

    @property
    def device(self) -> torch.device:
        return self.downsample.device

    def encoder_half(self) -> MimiWeights:
        """What an encoder needs: without nearly all of the decoder's."""
        return replace(self, decoder_layers=(), decoder_blocks=())

    def decoder_half(self) -> MimiWeights:
        """What a decoder needs: without nearly all of the encoder's."""
        return replace(self, encoder_layers=(), encoder_blocks=())


def assemble_mimi(spec: MimiSpec, fetch: Fetch) -> MimiWeights:
    """Group the codec's tensors, fetching the used codebooks alone."""

    def conv(key: str, module: str = "conv.conv") -> ConvWeights:
        return ConvWeights(
            fetch(f"{key}.{module}.weight", None), fetch(f"{key}.{module}.bias", None)
        )

    def residual(key: str) -> ResidualWeights:
        return ResidualWeights(conv(f"{key}.block.1"), conv(f"{key}.block.3"))

    def norm(key: str) -> ConvWeights:
        return ConvWeights(fetch(f"{key}.weight", None), fetch(f"{key}.bias", None))

    def layer(side: str, i: int) -> MimiLayer:
        p = f"{side}_transformer.transformer.layers.{i}."
        scale1, scale2 = (fetch(f"{p}layer_scale_{n}.scale", None)[:, None] for n in (1, 2))
        return MimiLayer(
            norm1=norm(p + "norm1"),
            in_proj=fetch(p + "self_attn.in_proj_weight", None),
            out_proj=fetch(p + "self_attn.out_proj.weight", None) * scale1,
            norm2=norm(p + "norm2"),
            linear1=fetch(p + "linear1.weight", None),
            linear2=fetch(p + "linear2.weight", None) * scale2,
        )

    def quantizer(half: str, layers: int) -> QuantizerWeights:
        def codebook(i: int) -> Tensor:
            key = f"quantizer.{half}.vq.layers.{i}._codebook."
            usage = fetch(key + "cluster_usage", None).clamp(min=1e-5)
            return fetch(key + "embedding_sum", None) / usage[:, None]

        return QuantizerWeights(
            input_proj=fetch(f"quantizer.{half}.input_proj.weight", None).squeeze(-1),
            output_proj=fetch(f"quantizer.{half}.output_proj.weight", None).squeeze(-1),
            codebooks=torch.stack([codebook(i) for i in range(layers)]),
        )

    depth = len(spec.ratios)
    return MimiWeights(
        encoder_first=conv("encoder.model.0"),
        encoder_blocks=tuple(
            (residual(f"encoder.model.{1 + 3 * i}"), conv(f"encoder.model.{3 + 3 * i}"))
            for i in range(depth)
        ),
        encoder_last=conv(f"encoder.model.{2 + 3 * depth}"),
        encoder_layers=tuple(layer("encoder", i) for i in range(spec.transformer_layers)),
        downsample=fetch("downsample.conv.conv.conv.weight", None),
        semantic=quantizer("rvq_first", 1),
        acoustic=quantizer("rvq_rest", CODEBOOKS - 1),
        upsample=fetch("upsample.convtr.convtr.convtr.weight", None).squeeze(1),
        decoder_layers=tuple(layer("decoder", i) for i in range(spec.transformer_layers)),
        decoder_first=conv("decoder.model.0"),
        decoder_blocks=tuple(
            (
                conv(f"decoder.model.{2 + 3 * i}", "convtr.convtr"),
                residual(f"decoder.model.{3 + 3 * i}"),
            )
            for i in range(depth)
        ),
        decoder_last=conv(f"decoder.model.{2 + 3 * depth}"),
    )
