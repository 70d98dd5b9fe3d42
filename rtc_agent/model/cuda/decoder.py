"""The codec's decoder on a device: eight codes of every row to one frame, in static buffers."""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_agent.model.cuda.arena import Arena, LayerInput
from rtc_agent.model.cuda.codec_transformer import POSITIONS, CodecTransformer
from rtc_agent.model.cuda.encoder import conv_matrix
from rtc_agent.model.cuda.launch import Launch, next_power_of_two
from rtc_agent.model.cuda.product import Patches, Product
from rtc_agent.model.kernels.quantizer import dequantize_kernel
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import CODEBOOKS, MimiSpec


def transposed_matrix(weight: Tensor, stride: int) -> Tensor:
    """A transposed convolution [in, out, 2 · stride] as a matrix, [stride · out, 2 · in].

    It gives the `stride` outputs that the second of two neighbouring inputs completes.
    """
    inputs, outputs, kernel = weight.shape
    if kernel != 2 * stride:
        raise ValueError(f"a transposed convolution of kernel {kernel} and stride {stride}")
    older, newer = weight[:, :, stride:], weight[:, :, :stride]
    taps = torch.stack((older, newer))  # [2, in, out, stride]
    return taps.permute(3, 2, 0, 1).reshape(stride * outputs, 2 * inputs).contiguous()


def projected_codebooks(weights: MimiWeights) -> Tensor:
    """Every codebook's vectors after their half's output projection, [8, bins, d]."""
    halves = (weights.semantic, weights.acoustic)
    tables = [h.codebooks.double() @ h.output_proj.double().T for h in halves]
    return torch.cat(tables).float().contiguous()


class DecoderGraph:
    """Buffers and launches of the decoder. Same arithmetic as `MimiDecoder`, other memory."""

    def __init__(self, spec: MimiSpec, weights: MimiWeights, rows: int, codes: Tensor) -> None:
        """
        Args:
            codes: [rows, 8] int64, read at every launch.
        """
        self.rows = rows
        self._codes = codes
        device = weights.device
        f32 = {"dtype": torch.float32, "device": device}
        channels, length = spec.n_filters * 2 ** len(spec.ratios), POSITIONS
        shapes = [LayerInput(1, 1, spec.dimension)]
        shapes.append(LayerInput(spec.kernel_size - 1, POSITIONS, spec.dimension))
        for stride in spec.ratios:
            shapes.append(LayerInput(1, length, channels))
            length *= stride
            channels //= 2
            shapes.append(LayerInput(spec.residual_kernel_size - 1, length, channels))
        shapes.append(LayerInput(spec.last_kernel_size - 1, length, channels))
        self.state = arena = Arena(shapes, rows, device)

        self._table = projected_codebooks(weights)
        self._up = weights.upsample.T.contiguous()
        self._x = torch.empty((rows, POSITIONS, spec.dimension), **f32)
        self._transformer = CodecTransformer(
            spec, weights.decoder_layers, arena, self._x, arena.new(1)
        )
        self._convs: list[Product] = []

        def conv(layer: int, outputs: int, matrix: Tensor, bias: Tensor, **to: Tensor) -> None:
            source = arena.inputs[layer]
            patches = Patches(source, outputs, source.shape[2], matrix.shape[1])
            self._convs.append(Product(patches, matrix, bias, **to))

        first = weights.decoder_first
        length = POSITIONS
        conv(1, length, conv_matrix(first.weight), first.bias, activated=arena.new(2))
        for i, ((up, residual), stride) in enumerate(
            zip(weights.decoder_blocks, spec.ratios, strict=True)
        ):
            at = 2 + 2 * i
            outputs = up.weight.shape[1]
            skip = torch.empty((rows, length * stride, outputs), **f32)
            conv(
                at,
                length,
                transposed_matrix(up.weight, stride),
                up.bias.repeat(stride),
                raw=skip,
                activated=arena.new(at + 1),
            )
            length *= stride
            inner = torch.empty((rows, length, residual.conv.weight.shape[0]), **f32)
            conv(
                at + 1,
                length,
                conv_matrix(residual.conv.weight),
                residual.conv.bias,
                activated=inner,
            )
            self._convs.append(
                Product(
                    Patches(inner, length, inner.shape[2], inner.shape[2]),
                    conv_matrix(residual.pointwise.weight),
                    residual.pointwise.bias,
                    skip=skip,
                    activated=arena.new(at + 2),
                )
            )
        self.pcm = torch.zeros((rows, length), **f32)
        """[rows, 1920]: the frames that were decoded."""
        last = weights.decoder_last
        at = 2 + 2 * len(spec.ratios)
        conv(at, length, conv_matrix(last.weight), last.bias, raw=self.pcm)

    def launch(self, speaking: Tensor, how: Launch) -> None:
        """Decode `codes` into `pcm`; rows not speaking [rows] bool keep their state."""
        _, bins, d = self._table.shape
        dequantize_kernel[(self.rows,)](
            self._codes,
            speaking,
            self._table,
            self.state.inputs[0],
            self._up,
            self._x,
            bins,
            CODES=CODEBOOKS,
            D=d,
            DP=next_power_of_two(d),
            **how.options(4),
        )
        self._transformer.launch(how)
        for conv in self._convs:
            conv.launch(how)
        self.state.commit(speaking, how)
